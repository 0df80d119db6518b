"""Parameters of requests that may be JSON, a form or a query string."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile

from regard.serving.api_errors import ApiError

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
Given = Mapping[str, Any]


@dataclass(frozen=True)
class Parameters:
    """The parameters of a request; those of forms and queries are lists of text."""

    values: Given
    is_json: bool

    @staticmethod
    async def of(request: Request) -> Parameters:
        """Read the parameters of a request: its body, or its query if there is no body."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json" or kind.endswith("+json"):
            if not await request.body():
                raise ApiError(400, "Invalid JSON format")
            return Parameters(await request.json(), is_json=True)
        query = {name: request.query_params.getlist(name) for name in request.query_params}
        if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
            form = await request.form(max_files=1, max_fields=1000)
            fields = {name: form.getlist(name) for name in form}
            return Parameters({**query, **fields}, is_json=False)
        return Parameters(query, is_json=False)

    def value(self, name: str) -> Any:
        """The value of a parameter as it is in JSON, or the first in a form; None: not given."""
        value = self.values.get(name)
        return value if self.is_json else value[0] if value else None

    def text(self, name: str) -> str | None:
        """A parameter that is text."""
        value = self.value(name)
        if value is None or isinstance(value, str):
            return value
        raise ApiError(400, f"Invalid request: {name} must be text", name)

    def texts(self, name: str) -> list[str]:
        """A parameter that may be given several times, or as a list."""
        value = self.values.get(name)
        listed = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(each, str) for each in listed):
            raise ApiError(400, f"Invalid request: {name} must be text, or a list of texts", name)
        return [*listed]

    def boolean(self, name: str, default: bool) -> bool:
        """A parameter that is true or false, also as 1 and 0."""
        value = self.value(name)
        if value is None:
            return default
        if str(value).lower() in _TRUE:
            return True
        if str(value).lower() in _FALSE:
            return False
        raise ApiError(400, f"Invalid request: {name} must be true or false", name)

    def file(self, name: str) -> UploadFile:
        """An uploaded file."""
        value = None if self.is_json else self.value(name)
        if not isinstance(value, UploadFile):
            raise ApiError(400, f"Invalid request: missing {name} parameter", name)
        return value


def body_description(model: Any, *kinds: str) -> dict[str, Any]:
    """The part of OpenAPI for a body that an endpoint reads itself."""
    schema = model.model_json_schema()
    schema = _with_definitions(schema, schema.pop("$defs", {}))
    return {"requestBody": {"content": {kind: {"schema": schema} for kind in kinds}}}


def _with_definitions(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema with definitions in place of references to them."""
    if isinstance(schema, list):
        return [_with_definitions(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _with_definitions(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {name: _with_definitions(value, definitions) for name, value in schema.items()}


JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
