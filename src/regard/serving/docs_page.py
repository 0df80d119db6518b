"""The documentation of the API as a plain page, without scripts and other hosts."""

from __future__ import annotations

from html import escape
from typing import Any

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>regard: API</title>
<link rel="stylesheet" href="/docs.css">
</head>
<body>
<main>
<h1>API</h1>
<p>The same in machine-readable form: <a href="/openapi.json">openapi.json</a></p>
"""


def docs_page(schema: dict[str, Any]) -> str:
    """The page for an OpenAPI description."""
    parts = [_HEAD]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(_operation(f"{method.upper()} {path}", operation))
    parts.append("<h2>Objects</h2>\n")
    for name, definition in schema.get("components", {}).get("schemas", {}).items():
        parts.append(_definition(name, definition))
    return "".join([*parts, "</main>\n</body>\n</html>\n"])


def _operation(title: str, operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    bodies = [
        f"<p>Body ({escape(kind)}): {_type(media.get('schema', {}))}</p>\n"
        for kind, media in content.items()
    ]
    parameters = operation.get("parameters", [])
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}</td>"
        f"<td>{_type(each.get('schema', {}))}</td></tr>\n"
        for each in parameters
    )
    table = f"<table>\n{rows}</table>\n" if rows else ""
    text = escape(operation.get("description", "")).replace("\n\n", "</p>\n<p>")
    statuses = ", ".join(operation.get("responses", {}))
    head = f"<h3>{escape(title)}</h3>\n<p>{text}</p>\n{table}"
    return f"{head}{''.join(bodies)}<p>Status: {statuses}</p>\n"


def _definition(name: str, definition: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code></td><td>{_type(kind)}</td>"
        f"<td>{escape(kind.get('description', ''))}</td></tr>\n"
        for field, kind in definition.get("properties", {}).items()
    )
    text = escape(definition.get("description", ""))
    return f'<h3 id="{escape(name)}">{escape(name)}</h3>\n<p>{text}</p>\n<table>\n{rows}</table>\n'


def _type(schema: dict[str, Any]) -> str:
    """A type as text, with links to objects."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(escape(repr(value)) for value in schema["enum"])
    if "const" in schema:
        return escape(repr(schema["const"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return escape(str(schema.get("type", "any")))
