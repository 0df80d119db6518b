"""Protected spans are found by patterns and marks, in linear time."""

from __future__ import annotations

import pickle
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.protected import SPAN_KINDS, SpanFinder, SpanKind


def spans(finder: SpanFinder, text: str) -> list[str]:
    return [text[span.inner_start : span.inner_end] for span in finder.find(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://x.com/a.b?x=1&y=2, or (http://x.org/a_(b)).",
         ["https://x.com/a.b?x=1&y=2", "http://x.org/a_(b)"]),
        ('"https://a.b/c." <https://a.b/d> **https://x.y** https://a.b/…',
         ["https://a.b/c", "https://a.b/d", "https://x.y", "https://a.b/"]),
        ("请访问https://example.com。谢谢", ["https://example.com"]),
        ("https://de.wikipedia.org/wiki/Zürich?", ["https://de.wikipedia.org/wiki/Zürich"]),
        ("www.foo.de! Example.com, example.org:8080/a?b.",
         ["www.foo.de", "Example.com", "example.org:8080/a?b"]),
        ("https://x.y/{id}/{{z}} http://[::1]:80/", ["https://x.y/{id}/{{z}}", "http://[::1]:80/"]),
        ("ftp://u:p@h:21/x; mailto:bob@x.com, tel:+49-30.",
         ["ftp://u:p@h:21/x", "mailto:bob@x.com", "tel:+49-30"]),
        ("end.In node.js a.b.c Hotel:5 bob@example.com http:// x", []),
    ],
)  # fmt: skip
def test_urls(text: str, expected: list[str]) -> None:
    assert spans(SpanFinder.of(["urls"]), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bob@x.com. <a@b.de>, 'c.d@e.fr'", ["bob@x.com", "a@b.de", "c.d@e.fr"]),
        ("联系bob.m+1@x-y.co.uk。", ["bob.m+1@x-y.co.uk"]),
        ("a@b @x.com bob@", []),
    ],
)
def test_emails(text: str, expected: list[str]) -> None:
    assert spans(SpanFinder.of(["emails"]), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234.5 and 3.14. 1'000, 1’000", ["1,234.5", "3.14", "1'000", "1’000"]),
        ("50% off, 50 %, 20°C, ½, 1½", ["50%", "50", "20°", "½", "1½"]),
        ("12:30 on 2024-01-05 or 2024-01-05T10:00", ["12:30", "2024-01-05", "2024-01-05T10:00"]),
        ("v1.2.3, 1.2.3-beta, 192.168.0.1", ["v1.2.3", "1.2.3", "192.168.0.1"]),
        ("-5 +3 −2 3-5 10–20 (4)", ["-5", "+3", "−2", "3-5", "10–20", "4"]),
        (".5 1e-3 0xFF", [".5", "1e-3", "0xFF"]),
        ("1\u00a0234\u202f567 1 234", ["1\u00a0234\u202f567", "1", "234"]),
        ("$5.00, 5€, 10km, 3.5GB, COVID-19", ["5.00", "5", "10", "3.5", "19"]),
        ("3个，有2个, ٣٫١٤", ["3", "2", "٣٫١٤"]),
        ("H2O mp3 a2 x_1 2_x 1st 2nd 12th 90s 2e 3ème 4º 1,000th", []),
    ],
)  # fmt: skip
def test_numbers(text: str, expected: list[str]) -> None:
    assert spans(SpanFinder.of(["numbers"]), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{name} {0} {} {a.b!r:>10} {a[0]}", ["{name}", "{0}", "{}", "{a.b!r:>10}", "{a[0]}"]),
        ("{{var}} {{{x}}} ${a} #{c} %{d}", ["{{var}}", "{{{x}}}", "${a}", "#{c}", "%{d}"]),
        ("{% if x %} <%= y %> {n, number}", ["{% if x %}", "<%= y %>", "{n, number}"]),
        ("%s %d %1$s %(name)s", ["%s", "%d", "%1$s", "%(name)s"]),
        ("%-10.2f %% %@ %ld", ["%-10.2f", "%%", "%@", "%ld"]),
        ("%sClick here%s, %ds ago, %Y-%m, %-d", ["%s", "%s", "%d", "%Y", "%m", "%-d"]),
        ("<0>a</0> <1/> %PATH% $HOME", ["<0>", "</0>", "<1/>", "%PATH%", "$HOME"]),
        ("100% sure, 50% of, 50%-ige, der %-Satz, US$5, $5, {a b}, <b>", []),
    ],
)  # fmt: skip
def test_placeholders(text: str, expected: list[str]) -> None:
    assert spans(SpanFinder.of(["placeholders"]), text) == expected


def test_spans_that_overlap_or_touch_are_one() -> None:
    finder = SpanFinder.of(SPAN_KINDS, [r"TICKET-\d+", "x*"])
    text = "{a}{b} 5%{c} https://x.de/{d}/2 TICKET-12 TICKET-x"
    assert spans(finder, text) == ["{a}{b}", "5%{c}", "https://x.de/{d}/2", "TICKET-12", "x"]
    assert [span.is_opaque for span in finder.find(text)] == [True, True, True, False, False]
    assert pickle.loads(pickle.dumps(finder)) == finder


@pytest.mark.parametrize("marks", [("⟦", "⟧"), ("[[", "]]"), ("<nt>", "</nt>"), ("|", "|")])
def test_marked_text_is_a_span_without_its_marks(marks: tuple[str, str]) -> None:
    begin, end = marks
    finder = SpanFinder.of(["numbers"], (), marks)
    text = f"5 {begin}New  York{end}, {begin}6\n7{end} 8 {begin}{end} {begin} {end} {begin}x"
    assert spans(finder, text)[:4] == ["5", "New  York", "6\n7", "8"]
    assert len(finder.find(text)) == 4 or begin == end
    first = finder.find(text)[1]
    assert text[first.start : first.end] == f"{begin}New  York{end}"


def test_patterns_do_not_match_across_marks() -> None:
    finder = SpanFinder.of(["urls"], (), ("[[", "]]"))
    assert spans(finder, "https://x.de/[[a]]b [[see https://y.de]]") == [
        "https://x.de/", "a", "see https://y.de",
    ]  # fmt: skip


@given(st.text(alphabet="a1 .,:-/@{}[]()%$<>#é中\n", max_size=40))
def test_spans_are_in_order_and_not_empty(text: str) -> None:
    end = 0
    for span in SpanFinder.of(SPAN_KINDS, (), ("[[", "]]")).find(text):
        assert end <= span.start <= span.inner_start < span.inner_end <= span.end <= len(text)
        end = span.end


UNITS = [
    *("a", "a.", "a-", "1", "1,", "%", "{", "{{", "{ ", "(", "http://", "http://a(", "http://a{"),
    *("a@", "a@b.", "$", "www.", "-", "1\u00a0", "1\u00a0111", "[[", "<%", "{%", "{a:", "%("),
    *("0x", "x.com", "x.com@", "%A", "a+b+", "a://", "mailto:", "1T", "<0 ", "+1", "é", "v1."),
    *("a[1", "%1$"),
]  # fmt: skip


@pytest.mark.parametrize("kind", SPAN_KINDS)
def test_hostile_lines_take_linear_time(kind: SpanKind) -> None:
    finder = SpanFinder.of([kind], (), ("[[", "]]"))
    draw = random.Random(1)
    lines = [(unit * 100_000)[:100_000] for unit in UNITS]
    lines += [line[:50_000] + end for line in lines[:8] for end in ("1st", ".", "@x")]
    lines += ["".join(draw.choices(UNITS, k=30_000)) for _ in range(3)]
    for line in lines:
        start = time.process_time()
        finder.find(line)
        assert time.process_time() - start < 3  # quadratic time would be minutes
