"""The page of the server in a real browser; skipped without Playwright and Debian's chromium."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from regard.serving import __file__ as package
from serving_process import ServerProcess

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.filterwarnings("ignore::regard.config.RenamedWarning"),
]
PAGE = Path(package).parent / "page"
expect = sync_api.expect


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        options = {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}
        browser = playwright.chromium.launch(**options)
        yield browser
        browser.close()


class Visit:
    """A page in a fresh context, with all that went wrong."""

    def __init__(self, browser: Any, url: str, path: str = "/", **options: Any) -> None:
        self.context = browser.new_context(**{"locale": "en-US", **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.problems: list[str] = []
        self.requests: list[Any] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request))
        self.page.goto(url + path)
        expect(self.page.locator("#model option").first).to_be_attached()

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def choose(self, name: str) -> None:
        """Choose the first model with this name."""
        option = self.page.locator("#model option", has_text=re.compile(f"(^|· ){name}$")).first
        self.page.select_option("#model", option.get_attribute("value"))


@pytest.fixture
def visit(browser: Any, server: ServerProcess) -> Iterator[Visit]:
    visit = Visit(browser, server.url)
    yield visit
    visit.context.close()
    assert visit.problems == []  # violations of the content security policy included
    hosts = {urlsplit(request.url).netloc for request in visit.requests}
    assert hosts == {urlsplit(server.url).netloc}


def translated(server: ServerProcess, text: str) -> dict[str, Any]:
    query = {"texts": [text], "num_hypotheses": 4, "confidence": True, "model": "ende"}
    return server.post("/v1/translate", query).json()["translations"][0]


def test_policy_forbids_inline_scripts_and_other_hosts(server: ServerProcess) -> None:
    response = httpx.get(server.url)
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "<style" not in response.text
    assert not re.search(r"<script(?![^>]*src=)|\sstyle=|\son\w+=", response.text)
    for path in PAGE.iterdir():
        assert path.stat().st_size < 40_000
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", path.read_text("utf-8")), path


def test_translation_is_streamed_with_alternatives_and_confidence(
    visit: Visit, server: ServerProcess
) -> None:
    page = visit.page
    page.locator("#input").press_sequentially("mira tolu sen", delay=5)
    result = translated(server, "mira tolu sen")
    output = page.locator("#output")
    expect(output).to_have_attribute("data-translation", result["text"])
    queries = [request for request in visit.requests if request.url.endswith("/v1/translate")]
    assert all(json.loads(request.post_data)["stream"] for request in queries)
    assert len(queries) < 5  # not one per key
    weak = [word["text"] for word in result["words"] if word["confidence"] < 0.5]
    assert weak, "the model is too certain for this test"
    expect(output.locator(".weak")).to_have_count(len(weak))
    expect(output.locator(".weak").first).to_contain_text("(uncertain, ")
    expect(page.get_by_role("status").first).to_have_text(f"Translation: {result['text']}")
    texts = [*dict.fromkeys(each["text"] for each in [result, *result["alternatives"]])]
    buttons = page.get_by_role("region", name="Alternatives").get_by_role("button")
    expect(buttons).to_have_count(len(texts))
    buttons.nth(1).click()
    expect(output).to_have_attribute("data-translation", texts[1])
    expect(buttons.nth(1)).to_have_attribute("aria-pressed", "true")
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == texts[1]


def test_sentences_are_shown_before_the_whole_answer(visit: Visit, server: ServerProcess) -> None:
    page = visit.page
    page.evaluate(
        """() => {
            window.shown = [];
            new MutationObserver((records) => window.shown.push(
                ...records.flatMap((record) => [...record.addedNodes]).map((node) => node.data)
            )).observe(document.querySelector("#output"), { childList: true });
        }"""
    )
    page.fill("#input", "mira tolu\nsen")
    text = translated(server, "mira tolu\nsen")["text"]
    expect(page.locator("#output")).to_have_attribute("data-translation", text)
    sentences = text.split("\n")
    displayed = page.evaluate("window.shown")
    assert displayed[0] in sentences  # the sentence that is ready first
    assert displayed[1] == " ".join(sentences)


def test_an_earlier_request_is_aborted_and_errors_are_shown(
    visit: Visit, server: ServerProcess
) -> None:
    page, arrived = visit.page, []

    def hold_first(route: Any) -> None:
        arrived.append(route)
        if len(arrived) > 1:
            route.continue_()

    page.route("**/v1/translate", hold_first)
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.post_data_json["texts"][0]))
    with page.expect_request("**/v1/translate"):
        page.fill("#input", "mira")
    page.fill("#input", "mira sen")
    text = translated(server, "mira sen")["text"]
    expect(page.locator("#output")).to_have_attribute("data-translation", text)
    assert failed[0] == "mira"  # Chromium may also report the end of the other stream
    page.fill("#input", "a" * 20_001)
    expect(page.get_by_role("alert")).to_have_text(
        "The text has 20,001 characters. At most 20,000 are allowed."
    )
    expect(page.locator("#output")).to_be_empty()
    page.fill("#input", "")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_swapping_languages_takes_the_translation(visit: Visit, server: ServerProcess) -> None:
    page = visit.page
    page.fill("#input", "mira tolu")
    text = translated(server, "mira tolu")["text"]
    expect(page.locator("#output")).to_have_attribute("data-translation", text)
    page.get_by_role("button", name="Swap languages").click()
    expect(page.get_by_label("Text in German")).to_have_value(text)
    expect(page.locator("#output")).to_have_attribute("lang", "en")
    expect(page.locator("#output")).not_to_have_attribute("data-translation", text)


def test_attention_of_words_by_pointer_keys_and_heads(visit: Visit, server: ServerProcess) -> None:
    page = visit.page
    page.fill("#input", "mira tolu")
    look = page.get_by_role("region", name="Attention", exact=True)
    source = look.get_by_role("toolbar", name="Source (keys)").get_by_role("button")
    target = look.get_by_role("toolbar", name="Output (queries)").get_by_role("button")
    expect(source).to_have_text(["mira", "tolu", "</s>"])
    query = {"source": "mira tolu", "target": translated(server, "mira tolu")["text"]}
    maps = server.post("/v1/attention", query).json()["attention"]
    heads = maps["cross"][0]
    rows = target.count()
    assert rows == len(maps["target"])  # every word is a subword here
    largest = max(range(3), key=lambda key: sum(head[0][key] for head in heads))
    weight = sum(head[0][largest] for head in heads) / len(heads)
    target.first.hover()
    reading = page.locator("#look-list")
    expect(reading).to_contain_text(f"attends to {['mira', 'tolu', '</s>'][largest]} ")
    style = source.nth(largest).get_attribute("style")
    assert float(re.findall(r"[\d.]+", style)[0]) == pytest.approx(100 * weight, abs=0.1)
    source.first.focus()
    page.keyboard.press("ArrowRight")
    expect(source.nth(1)).to_be_focused()
    expect(reading).to_contain_text("tolu is attended to by ")
    page.keyboard.press("ArrowDown")
    expect(target.first).to_be_focused()
    look.get_by_text("All layers and heads").click()
    head = look.get_by_role("button", name="Layer 1, head 2")
    head.click()
    expect(look.get_by_role("combobox", name="Head")).to_have_value("1")
    target.first.hover()
    best = max(heads[1][0])
    expect(reading).to_contain_text(f" {round(100 * best)}%")
    look.get_by_role("combobox", name="Attention").select_option("encoder")
    expect(look.get_by_role("toolbar", name="Source (queries)")).to_be_visible()
    look.locator("summary", has_text="Attention matrix").click()
    expect(look.get_by_role("img", name="3 rows (queries) and 3 columns")).to_be_visible()
    look.get_by_role("img").hover(position={"x": 60, "y": 60})
    expect(page.locator("#matrix-reading")).to_contain_text("→")


def test_language_models_continue_texts(visit: Visit, server: ServerProcess) -> None:
    page = visit.page
    visit.choose("causal")
    page.fill("#input", "mira tolu")
    answer = server.post("/v1/next", {"text": "mira tolu", "model": "causal"}).json()
    bars = page.locator("#output .bars button")
    expect(bars).to_have_count(8)
    expect(bars.first).to_contain_text(f"{round(100 * answer['tokens'][0]['probability'])}%")
    expect(page.get_by_role("toolbar", name="Decoder input (keys)")).to_be_visible()
    position, token = next(
        (position, token["text"])
        for position, token in enumerate(answer["tokens"])
        if token["text"].strip()
    )
    bars.nth(position).click()
    expect(page.locator("#input")).to_have_value("mira tolu" + token)
    query = {"prompt": "mira tolu" + token, "max_tokens": 60, "temperature": 0, "model": "causal"}
    [choice] = server.post("/v1/completions", query).json()["choices"]
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#output")).to_have_attribute(
        "data-translation", query["prompt"] + choice["text"]
    )


def test_masks_tags_and_classes(visit: Visit, server: ServerProcess) -> None:
    page = visit.page
    output = page.locator("#output")
    visit.choose("masked")
    page.fill("#input", "mira ")
    page.locator("#input").press("End")
    page.get_by_role("button", name="Insert [MASK]").click()
    query = {"texts": ["mira [MASK]"], "model": "masked"}
    best = server.post("/v1/predict", query).json()["results"][0]["blanks"][0][0]
    expect(output.get_by_role("button").first).to_contain_text(best["word"])
    output.get_by_role("button").first.click()
    expect(page.locator("#input")).to_have_value(f"mira {best['word']}")
    visit.choose("tagger")
    expect(page.locator("#input")).to_have_value("")  # another task
    page.fill("#input", "mira sen")
    expect(output.locator(".tagged > span")).to_have_count(2)
    visit.choose("classifier")
    page.fill("#input", "mira\nsen")
    query = {"texts": ["mira\tsen"], "model": "classifier"}
    label = server.post("/v1/predict", query).json()["results"][0]["label"]
    expect(output.get_by_role("listitem").first).to_contain_text(label)
    visit.choose("masked")
    expect(page.locator("#input")).to_have_value(f"mira {best['word']}")


def test_comparison_and_card(visit: Visit, server: ServerProcess) -> None:
    page = visit.page
    page.fill("#input", "mira tolu sen")
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_label("Model 1")).to_have_value("0")
    sides = page.get_by_role("group", name="Translation")
    expect(sides.nth(1)).not_to_be_empty()
    differing = sides.locator("mark").count()
    assert differing > 0
    page.get_by_label("Model 2").select_option("0")
    expect(page.get_by_text("Both translations are the same.")).to_be_visible()
    expect(sides.locator("mark")).to_have_count(0)
    page.get_by_role("link", name="Model").click()
    card = httpx.get(f"{server.url}/v1/models/ende").json()
    expect(page.locator("#card")).to_contain_text(f"{card['parameters']:,}")
    expect(page.locator("#card")).to_contain_text("CTranslate2, int8")
    expect(page.get_by_text("no metrics log")).to_be_visible()


def test_a_file_is_translated(visit: Visit, server: ServerProcess, tmp_path: Path) -> None:
    page = visit.page
    (tmp_path / "text.txt").write_text("mira tolu\n", encoding="utf-8")
    page.set_input_files("#file", tmp_path / "text.txt")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download text.de.txt").click()
    content = download.value.path().read_text(encoding="utf-8")
    assert content.strip() == translated(server, "mira tolu")["text"]
    (tmp_path / "text.exe").write_bytes(b"MZ")
    page.set_input_files("#file", tmp_path / "text.exe")
    expect(page.get_by_role("alert")).to_contain_text("Not supported: text.exe")


def test_chinese_by_preference_and_by_choice(browser: Any, server: ServerProcess) -> None:
    visit = Visit(browser, server.url, locale="zh-CN", color_scheme="dark")
    page = visit.page
    expect(page.get_by_label("原文（英语）")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_label("配色").select_option("light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.fill("#input", "mira tolu")
    expect(page.get_by_role("region", name="其他译文")).to_be_visible()
    page.get_by_role("combobox", name="语言").select_option("en")
    expect(page.get_by_role("region", name="Alternatives")).to_be_visible()
    page.reload()
    expect(page.get_by_role("combobox", name="Language")).to_have_value("en")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    visit.context.close()
    assert visit.problems == []


def test_both_languages_have_the_same_texts(browser: Any, server: ServerProcess) -> None:
    visit = Visit(browser, server.url)
    tables = visit.page.evaluate("import('/texts.js').then((module) => module.TEXTS)")
    sources = "".join(path.read_text("utf-8") for path in PAGE.iterdir())
    visit.context.close()
    assert tables["en"].keys() == tables["zh"].keys()
    for name, english in tables["en"].items():
        chinese = tables["zh"][name]
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", chinese)), name
    fixed = re.findall(r'(?:data-(?:text|label)=|\btext\(|text: )"([a-z.-]+)"', sources)
    assert {*fixed} <= tables["en"].keys()


def test_words_of_subwords_and_differences(browser: Any, server: ServerProcess) -> None:
    visit = Visit(browser, server.url)
    call = "([module, name, values]) => import(module).then((all) => all[name](...values))"
    tokens = ["<s>", "▁un", "likely", "▁word", "s", "</s>"]
    groups = visit.page.evaluate(call, ["/maps.js", "groupsOf", [tokens]])
    assert groups == [[0], [1, 2], [3, 4], [5]]
    assert visit.page.evaluate(call, ["/maps.js", "groupsOf", [["▁我们", "喜欢"]]]) == [[0], [1]]
    weights = [[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]
    arguments = [weights, ["▁a", "b"], ["▁x", "y", "</s>"], True]
    joined = visit.page.evaluate(call, ["/maps.js", "inWords", arguments])
    assert joined["rows"] == ["ab"]
    assert joined["columns"] == ["xy", "</s>"]
    assert joined["weights"][0] == pytest.approx([0.5, 0.5])
    visit.context.close()


def test_accessibility_and_phones(browser: Any, server: ServerProcess) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for scheme in ("light", "dark"):
        size = {"width": 360, "height": 700} if scheme == "dark" else {"width": 1200, "height": 900}
        visit = Visit(browser, server.url, color_scheme=scheme, viewport=size)
        page = visit.page
        page.fill("#input", "mira tolu sen")
        expect(page.locator("#look")).to_be_visible()
        for summary in page.locator("summary").all():
            summary.click()
        for view in ("text", "compare", "card"):
            page.evaluate(f"location.hash = '{view}'")
            expect(page.locator(f"#view-{view}")).to_be_visible()
            expect(page.locator("#card .cards" if view == "card" else "#main")).to_be_visible()
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= size["width"], f"{view} is wider than the window"
            violations = axe.run(page).response["violations"]
            assert [(each["id"], each["nodes"][0]["html"]) for each in violations] == []
        visit.context.close()


def test_a_key_is_asked_for_where_it_is_needed(browser: Any, server: ServerProcess) -> None:
    page = browser.new_context(locale="en-US").new_page()
    keys: list[str | None] = []

    def check_key(route: Any) -> None:
        keys.append(route.request.headers.get("authorization"))
        if keys[-1] == "Bearer secret":
            route.continue_()
        else:
            route.fulfill(status=401, json={"error": {"message": "A key is required."}})

    page.route("**/v1/**", check_key)
    page.goto(server.url)
    expect(page.get_by_label("API key")).to_be_focused()
    expect(page.get_by_role("alert")).to_have_text("This server requires an API key.")
    page.get_by_label("API key").fill("secret")
    page.get_by_role("button", name="Use").click()
    page.fill("#input", "mira")
    expect(page.locator("#output")).to_have_attribute("data-translation", re.compile(".+"))
    expect(page.get_by_label("API key")).to_be_hidden()
    assert {*keys[1:]} == {"Bearer secret"}
    page.context.close()
