"""Small documents of all formats, made by the libraries that users make them with."""

from __future__ import annotations

import base64
from collections.abc import Callable
from io import BytesIO

import docx
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Inches
from odfdo import Document as OpenDocument
from odfdo import Header, Link, Paragraph, Style, Table

from regard.documents.config import FileFormat

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
HTML = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"><title>A title &amp; more</title>
<meta name="description" content="A short page.">
<style>p { color: red }</style><script>let text = "<p>not text</p>";</script>
</head>
<body>
<p>A <b>big</b> dog and <a href="x.html" title="The cat">a cat</a>.<br>They sleep.</p>
<pre>int x;</pre><p translate="no">keep this</p>
<p>See <code>ls -l</code>, <img src="a.png" alt='The "old" house'> 42</p>
<p>12.5</p>
</body>
</html>
"""
MARKDOWN = """---
title: not translated
---
# A *big* dog

See [the cat][1] and `code`.

- one dog
- two dogs

| a dog | 12 |
|---|---|
| cell | x |

```
not this
```

[1]: https://example.org "not this"
"""
SRT = """1
00:00:01,000 --> 00:00:02,500
A dog and
<i>a cat</i>.

2
00:00:03,000 --> 00:00:04,000
- Who is it?
- A dog.

3
00:00:05,000 --> 00:00:06,000
It goes to the house

4
00:00:06,000 --> 00:00:08,000 X1:40 X2:600
and sleeps there.
"""
VTT = """WEBVTT - a film

NOTE a remark
that is not shown

STYLE
::cue { color: yellow }

first
00:01.000 --> 00:04.000 align:start position:10%
<v Ann>A <c.loud>big</c> dog &amp; a cat

00:05.000 --> 00:06.000
They sleep.
"""
PO = r"""# Translations of a program
msgid ""
msgstr ""
"Project-Id-Version: program 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. a comment of the program
#: main.c:10
msgid "Open the file"
msgstr ""

#, c-format
msgctxt "menu"
msgid "%d file\n"
msgid_plural "%d files\n"
msgstr[0] ""
msgstr[1] ""

msgid ""
"A text with several lines,\n"
"with \"quotes\" and more."
msgstr ""

msgid "done"
msgstr "fertig"

msgid "100 %"
msgstr ""

#~ msgid "old"
#~ msgstr "alt"
"""
XLIFF_1 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file original="a.txt" source-language="en" datatype="plaintext"><body>
    <trans-unit id="1">
      <source>A <g id="1">big</g> dog<x id="2"/> &amp; {paired}</source>
      <note>a note</note>
    </trans-unit>
    <trans-unit id="2" approved="yes"><source>done</source><target>fertig</target></trans-unit>
    <trans-unit id="3" translate="no"><source>keep</source></trans-unit>
    <trans-unit id="4">
      <source>One dog. Two dogs.</source>
      <seg-source>{segments}</seg-source>
      <target/>
    </trans-unit>
  </body></file>
</xliff>
""".format(
    paired='<bpt id="3">[</bpt>a cat<ept id="3">]</ept>',
    segments='<mrk mtype="seg" mid="1">One dog.</mrk> <mrk mtype="seg" mid="2">Two dogs.</mrk>',
)
XLIFF_2 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en">
  <file id="f"><unit id="1">
    <segment><source>A <pc id="1">big</pc> dog and {name}.</source></segment>
    <ignorable><source> </source></ignorable>
    <segment><source>done</source><target>fertig</target></segment>
  </unit></file>
</xliff>
""".format(name='<mrk id="m" translate="no">Rex</mrk>')


def docx_sample() -> bytes:
    """Formatting, a link, a table, an image, a field, a header, and a text box."""
    document = docx.Document()
    document.add_heading("A big dog", 1)
    paragraph = document.add_paragraph("The ")
    paragraph.add_run("old house").bold = True
    paragraph.add_run(" and ")
    paragraph.add_run("the cat").italic = True
    paragraph.add_run(" sleep")
    paragraph.add_run().add_picture(BytesIO(PNG), Inches(0.1))
    paragraph.add_run(".\tNow.")
    _add_link(document.add_paragraph("See "), "the page")
    _add_field(document.add_paragraph("It is on page "), "PAGE", "7")
    document.add_paragraph("42")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "one dog", "12.5"
    document.sections[0].header.paragraphs[0].text = "the header"
    _add_text_box(document.add_paragraph("outside"), "inside the box")
    buffer = BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def _add_link(paragraph: object, text: str) -> None:
    link = OxmlElement("w:hyperlink")
    link.set(qn("w:anchor"), "place")
    run = OxmlElement("w:r")
    content = OxmlElement("w:t")
    content.text = text
    run.append(content)
    link.append(run)
    paragraph._p.append(link)  # type: ignore[attr-defined]


def _add_field(paragraph: object, instruction: str, result: str) -> None:
    marks = ("begin", None, "separate", result, "end")
    for mark in marks:
        run = OxmlElement("w:r")
        if mark is None:
            child = OxmlElement("w:instrText")
            child.text = f" {instruction} "
        elif mark == result:
            child = OxmlElement("w:t")
            child.text = result
        else:
            child = OxmlElement("w:fldChar")
            child.set(qn("w:fldCharType"), mark)
        run.append(child)
        paragraph._p.append(run)  # type: ignore[attr-defined]


def _add_text_box(paragraph: object, text: str) -> None:
    box = parse_xml(
        f'<w:r {nsdecls("w")} xmlns:v="urn:schemas-microsoft-com:vml"><w:pict><v:shape><v:textbox>'
        f"<w:txbxContent><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:txbxContent>"
        "</v:textbox></v:shape></w:pict></w:r>"
    )
    paragraph._p.append(box)  # type: ignore[attr-defined]


def odt_sample() -> bytes:
    """Formatting, a link, spaces and tabs, a table, and a note."""
    document = OpenDocument("text")
    document.body.clear()
    document.insert_style(Style("text", name="Bold", bold=True), automatic=True)
    document.body.append(Header(1, "A big dog"))
    paragraph = Paragraph("The old house and the cat   sleep.\tNow.")
    paragraph.set_span("Bold", regex="old house")
    paragraph.insert_note(after="cat", note_id="n", citation="1", body="A note on the cat.")
    document.body.append(paragraph)
    link = Paragraph("See ")
    link.append(Link("https://example.org", text="the page"))
    document.body.append(link)
    table = Table("T", width=2, height=1)
    table.set_value("A1", "one dog")
    table.set_value("B1", 12.5)
    document.body.append(table)
    document.body.append(Paragraph("42"))
    buffer = BytesIO()
    document.save(buffer)
    return buffer.getvalue()


SAMPLES: dict[str, tuple[FileFormat, Callable[[], bytes]]] = {
    "a.txt": ("txt", lambda: b"\xef\xbb\xbfA dog.\r\n\r\n  two cats \r\n42\nno end"),
    "a.html": ("html", HTML.encode),
    "a.md": ("md", MARKDOWN.encode),
    "a.srt": ("srt", SRT.encode),
    "a.vtt": ("vtt", VTT.encode),
    "a.docx": ("docx", docx_sample),
    "a.odt": ("odt", odt_sample),
    "a.po": ("po", PO.encode),
    "a.xlf": ("xliff", XLIFF_1.encode),
    "b.xliff": ("xliff", XLIFF_2.encode),
}
