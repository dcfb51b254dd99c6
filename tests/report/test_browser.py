"""The report in a browser: it fits, is readable, loads nothing, and its plots are interactive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpunn.comparison import Comparison
from gpunn.report import write_report
from tests.browser import Browser
from tests.report.conftest import WRONG

# The least contrast of a text with its background, by WCAG 2.2's definitions of luminance and contrast, and
# that text. Backgrounds are opaque or transparent; text in SVG has its colour from `fill`.
LEAST_CONTRAST = """(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const found = rgb(getComputedStyle(node).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    throw new Error("nothing is behind the text");
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let least = [100, ""];
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    const shown = node.checkVisibility() && !node.matches("script, title, desc");
    if (!shown || !texts.currentNode.data.trim()) continue;
    const style = getComputedStyle(node);
    const [a, b] = [rgb(node.matches("text") ? style.fill : style.color), behind(node)].map(luminance);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < least[0]) least = [contrast, texts.currentNode.data];
  }
  return least;
})()"""

# Elements that extend beyond the window, outside of boxes that scroll.
STICKING_OUT = """[...document.querySelectorAll("body *")].filter((node) =>
  node.checkVisibility() && !node.closest(".scroll, .sr-only")
  && node.getBoundingClientRect().right > innerWidth + 1
).map((node) => node.outerHTML.slice(0, 100))"""


@pytest.fixture
def address(wrong: Comparison, tmp_path: Path) -> str:
    """Write the report of a comparison with a wrong layer; return its address."""
    path = tmp_path / "report.html"
    write_report(wrong, path)
    return path.as_uri()


# How many figures below histograms are broken into two lines, and whether there are any figures.
BROKEN = """(() => {
  const facts = [...document.querySelectorAll(".histogram .whole")];
  return [facts.filter((node) => node.getClientRects().length > 1).length, facts.length > 0];
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_page_fits_and_is_readable(browser: Browser, address: str, width: int, dark: bool) -> None:
    browser.show(width, 800, dark=dark)
    browser.open(address)
    assert [sent for sent in browser.requests if not sent.startswith("data:")] == [address]
    assert browser.complaints == []
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    assert browser.evaluate(STICKING_OUT) == []
    assert browser.evaluate(BROKEN) == [0, True]
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0]")
    assert (int(background) < 60) == dark
    contrast, text = browser.evaluate(LEAST_CONTRAST)
    assert contrast >= 4.5, text  # WCAG 2.2, 1.4.3, level AA


# Tables and boxes of tables that are wider than they may be, and texts of cells that are cut.
CUT = """[...document.querySelectorAll(".scroll, .scroll th, .scroll td, .scores th, .scores td")]
  .filter((node) => node.checkVisibility() && !node.closest("thead"))
  .filter((node) => node.scrollWidth > node.clientWidth + 1)
  .map((node) => [node.outerHTML.slice(0, 100), node.scrollWidth, node.clientWidth])"""


@pytest.mark.parametrize("width", [360, 1000, 1120, 1280])
def test_no_column_is_cut(browser: Browser, wrong: Comparison, tmp_path: Path, width: int) -> None:
    """Neither of a few sides, nor of five of them, nor of tensors with long names."""
    layers = tuple(
        replace(
            layer,
            name="_".join([layer.name, *["a_long_name"] * 12]),
            sides=tuple(replace(s, backend=f"{s.backend}-{n}") for s in layer.sides for n in range(2)),
        )
        for layer in wrong.layers
    )
    many = replace(wrong, layers=layers)
    for number, found in enumerate((wrong, many)):
        path = tmp_path / f"{number}.html"
        write_report(found, path)
        browser.show(width, 800)
        browser.open(path.as_uri())
        assert browser.evaluate(CUT) == []
        cell = "document.querySelector('.layers td[data-label$=accumulated]')"
        label = browser.evaluate(f"getComputedStyle({cell}, '::before').content")
        assert (label == "none") == (width > 1110)  # on a phone each figure has the name of its column
        assert "accumulated" in browser.evaluate(f"{cell}.dataset.label")


def middle(browser: Browser, selector: str) -> tuple[float, float]:
    """Scroll to an element; return its middle."""
    x, y = browser.evaluate(
        f"""(() => {{
          const node = document.querySelector({selector!r});
          node.scrollIntoView({{ block: "center", behavior: "instant" }});
          const frame = () => new Promise(requestAnimationFrame);
          return frame().then(frame).then(() => {{  // the event of scrolling has come by then
            const {{ x, y, width, height }} = node.getBoundingClientRect();
            return [x + width / 2, y + height / 2];
          }});
        }})()"""
    )
    return x, y


def point_at(browser: Browser, selector: str, kind: str = "mouseMoved") -> None:
    """Move the pointer to the middle of an element."""
    x, y = middle(browser, selector)
    event: dict[str, Any] = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
    browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **event)


def test_plot_shows_layers_and_links_to_their_rows(browser: Browser, address: str, wrong: Comparison) -> None:
    browser.show(1200, 800)
    browser.open(address)
    tip = "document.querySelector('.tip')"
    assert browser.evaluate(f"{tip}.hidden") is True
    column = f'.columns rect[data-row="layer-{WRONG}"]'
    point_at(browser, column)
    assert browser.evaluate(f"{tip}.hidden") is False
    text = browser.evaluate(f"{tip}.textContent")
    layer = wrong.layers[WRONG]
    assert text.startswith(f"{layer.index} {layer.called}\n{layer.name}\nisolated: ")
    assert "50x the tolerance" in text
    browser.evaluate("document.querySelector('details').open = false")
    for kind in ("mousePressed", "mouseReleased"):
        point_at(browser, column, kind)
    assert browser.evaluate(f"document.getElementById('layer-{WRONG}').matches(':target')")
    assert browser.evaluate("document.querySelector('details').open")


def test_tap_on_a_plot_shows_its_layer_until_a_tap_elsewhere(browser: Browser, address: str) -> None:
    browser.show(360, 800)
    browser.open(address)
    tip = "document.querySelector('.tip')"
    for row, hidden in (("0", False), ("29", False), (None, True)):
        selector = f'.columns rect[data-row="layer-{row}"]' if row else "h1"
        x, y = middle(browser, selector)
        browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        assert browser.evaluate(f"{tip}.hidden") is hidden, row
        if row:
            assert browser.evaluate(f"{tip}.textContent").startswith(f"{row} ")
            left, right = browser.evaluate(
                f"(({{ left, right }}) => [left, right])({tip}.getBoundingClientRect())"
            )
            assert 0 <= left < right <= 360
    assert browser.evaluate("location.hash") == ""  # a tap is too inexact to select a row


def test_units_of_the_plot(browser: Browser, address: str) -> None:
    browser.show(1200, 800)
    browser.open(address)
    shown = (
        "[...document.querySelectorAll('.drawing > g')].filter((g) => getComputedStyle(g).display !== 'none')"
        ".map((g) => g.className.baseVal)"
    )
    assert set(browser.evaluate(shown)) == {"unit-tolerances", "columns"}
    browser.evaluate("document.querySelector('[for=unit-absolute]').click()")
    assert set(browser.evaluate(shown)) == {"unit-absolute", "columns"}


def test_page_can_be_printed(browser: Browser, address: str) -> None:
    browser.open(address)
    printed = browser.call("Page.printToPDF", printBackground=True, transferMode="ReturnAsBase64")
    assert len(printed["data"]) > 10_000
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert browser.evaluate("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
