"""The page as a document: complete, safe, and independent of other files."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpunn.comparison import Comparison, Finding
from gpunn.comparison.result import LayerPair
from gpunn.report import html_report, write_report
from tests.report.conftest import WRONG

VOID = {"meta", "link", "img", "input", "col"}
SVG_EMPTY = {"line", "path", "rect", "circle"}  # these may end in "/>"
EVIL = "<script>alert(1)</script>\"'&amp;</title><img src=x onerror=alert(1)>\u202e\udcff\x00"


class Page(HTMLParser):
    """A parsed page: elements, attributes and texts; it asserts that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), attrs
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SVG_EMPTY
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts.setdefault(self._open[-1], []).append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self) -> str:
        shown = [" ".join(found) for tag, found in self.texts.items() if tag not in ("script", "style")]
        return re.sub(r"\s+", " ", " ".join(shown))


def test_page_is_complete(found: Comparison) -> None:
    page = Page(html_report(found))
    headings = [text.strip() for text in page.texts["h2"]]
    assert headings == [
        "Summary",
        "Outputs",
        "Accuracy",
        "Layer by layer",
        "Worst layers",
        "Photos",
        "Where it ran",
    ]
    text = page.text()
    assert "Every layer and output is within its tolerance" in text
    for layer in found.layers:
        assert layer.name in text
    for side in found.sides:
        assert side.device in text
    for answer in found.answers:
        assert answer.name in text
    for wanted in (found.machine, found.versions["numpy"], found.inputs.description, " of 5, "):
        assert wanted in text, wanted
    assert len(page.all("img")) == 5
    assert found.knows is not None and found.knows in text
    assert found.knows.startswith("cifar10_mobilenet.tflite knows 10 classes: airplane, automobile, ")
    assert "pixels as -1..1 (default; --pixels changes it)" in text
    rows = {attributes["id"] for attributes in page.all("tr") if "id" in attributes}
    assert rows == {f"layer-{position}" for position in range(len(found.layers))}
    assert {a["data-row"] for a in page.all("rect") if "data-row" in a} == rows


def test_errors_come_first(wrong: Comparison) -> None:
    page = Page(html_report(wrong))
    text = page.text()
    assert "Something is wrong on cpu" in text
    assert "is within its tolerance" not in text
    for finding in wrong.findings:
        assert finding.text in text
    layer = wrong.layers[WRONG]
    assert page.texts["p"].count("first over its tolerance") == 1
    assert f"layer {layer.index}, {layer.called}" in [t.strip() for t in page.texts["bdi"]]


def test_parts_that_have_no_content_are_left_out(found: Comparison) -> None:
    bare = replace(found, layers=(), answers=(), accuracy=())
    page = Page(html_report(bare))
    assert [t.strip() for t in page.texts["h2"]] == ["Summary", "Outputs", "Where it ran"]
    assert "Every output is within its tolerance" in page.text()


def test_tensors_of_two_files(found: Comparison) -> None:
    pair = LayerPair("order", "left", "right", (1, 2), found.pairs[0].outputs[0].metrics)
    text = Page(html_report(replace(found, layer_pairs=(pair,)))).text()
    assert all(word in text for word in ("Tensors of both files", "left", "right", "[1, 2]", "order"))


def test_rows_show_remarkable_values(found: Comparison) -> None:
    first, second, *others = found.layers
    first = replace(first, values=replace(first.values, beyond_f16=3))
    side = replace(second.sides[1], place="cpu", reason="it has strings")
    second = replace(second, sides=(second.sides[0], side))
    page = Page(html_report(replace(found, layers=(first, second, *others))))
    assert page.texts["span"].count("beyond float16") == page.texts["span"].count("on the cpu") == 1
    assert "it has strings" in [attributes.get("title") for attributes in page.all("span")]


def test_long_names_appear_once(found: Comparison) -> None:
    name = "model/" + "x" * 5000
    page = html_report(replace(found, layers=(replace(found.layers[0], name=name),), findings=()))
    cards = 2
    assert page.count(name) == 1 + cards
    assert page.count("model/" + "x" * 34 + "\N{HORIZONTAL ELLIPSIS}" + "x" * 39 + "\nisolated") == 2


def test_page_loads_nothing_else(wrong: Comparison) -> None:
    text = html_report(wrong)
    assert not re.search(r"https?:|@import|url\(|@font-face", text)
    page = Page(text)
    for tag, attributes in page.elements:
        assert attributes.get("src", "data:").startswith("data:"), tag
        assert attributes.get("href", "#").startswith(("#", "data:,")), tag
        assert not any(name.startswith("on") for name in attributes), tag
    (policy,) = (m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    (script,) = page.texts["script"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy


def test_names_from_files_are_text(wrong: Comparison) -> None:
    layers = [
        replace(
            layer,
            name=EVIL,
            op=EVIL,
            origin=EVIL,
            activation=EVIL,
            dtype=EVIL,
            sides=tuple(replace(s, backend=f"{EVIL}{k}", reason=EVIL) for k, s in enumerate(layer.sides)),
        )
        for layer in wrong.layers
    ]
    outputs = tuple(replace(output, name=EVIL) for output in wrong.pairs[0].outputs)
    answers = [
        replace(
            answer,
            name=EVIL,
            truth=EVIL,
            guesses={EVIL: tuple(replace(guess, label=EVIL) for guess in answer.guesses["cpu"])},
        )
        for answer in wrong.answers
    ]
    hostile = replace(
        wrong,
        model=EVIL,
        machine=EVIL,
        versions={EVIL: EVIL},
        inputs=replace(wrong.inputs, description=EVIL),
        sides=tuple(replace(s, name=EVIL, model=EVIL, device=EVIL, adapter=EVIL) for s in wrong.sides),
        pairs=(replace(wrong.pairs[0], reference=EVIL, candidate=EVIL, outputs=outputs),),
        accuracy=tuple(replace(row, backend=EVIL) for row in wrong.accuracy),
        layers=tuple(layers),
        answers=tuple(answers),
        layer_pairs=(LayerPair("name", EVIL, EVIL, (1,), wrong.pairs[0].outputs[0].metrics),),
        findings=(Finding("drift", True, EVIL, 0, EVIL), Finding("float16", False, "", 0, EVIL)),
    )
    text = html_report(hostile)
    text.encode("utf-8")
    page, plain = Page(text), Page(html_report(wrong))
    assert len(page.all("script")) == 1
    assert page.texts["script"] == plain.texts["script"]
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
    assert {a["src"][:11] for a in page.all("img")} == {"data:image/"}
    assert not re.search("[\x00\u202e\udcff]", text)
    shown = EVIL.replace("\u202e", "\ufffd").replace("\udcff", "\ufffd").replace("\x00", "\ufffd")
    for tag in ("title", "desc", "bdi", "span", "td", "dt", "dd"):
        assert any(shown in found for found in page.texts[tag]), tag


def test_page_is_accessible(wrong: Comparison) -> None:
    page = Page(html_report(wrong))
    (html,) = page.all("html")
    assert html["lang"] == "en"
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for tag, attributes in page.elements:
        assert set(attributes.get("aria-labelledby", "").split()) <= set(ids), tag
        assert attributes.get("for", ids[0]) in ids
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids
    for attributes in page.all("svg"):
        if attributes.get("role") == "img":
            title, description = attributes["aria-labelledby"].split()
            assert ("title", {"id": title}) in page.elements
            assert ("desc", {"id": description}) in page.elements
    assert all(attributes["alt"] for attributes in page.all("img"))
    assert all("scope" in attributes for attributes in page.all("th"))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


@pytest.mark.parametrize("count", [1000])
def test_many_layers_stay_below_two_megabytes(wrong: Comparison, count: int, tmp_path: Path) -> None:
    name = "MobilenetV2/expanded_conv_12/depthwise/BatchNorm/FusedBatchNorm/Relu6"
    layers = (wrong.layers * count)[:count]
    many = tuple(replace(layer, index=index, name=name) for index, layer in enumerate(layers))
    findings = tuple(Finding("float16", False, "", index, f"layer {index}") for index in range(count))
    path = tmp_path / "report.html"
    write_report(replace(wrong, layers=many, findings=findings), path)
    assert path.stat().st_size < 2_000_000
    page = Page(path.read_text(encoding="utf-8"))
    assert len([a for a in page.all("rect") if "data-row" in a]) == 2 * count
    assert f"{count - 12} more findings" in page.text()
