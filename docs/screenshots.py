"""Makes the pictures of the README: python -m docs.screenshots, in the root of the repository.

Needs Chromium, a GPU or Mesa's software Vulkan, and the extra `demo` for scikit-image's photo of a cat.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import skimage.data
from PIL import Image

import gpunn
from gpunn import vision
from gpunn.report import write_report
from tests.browser import Browser, open_browser
from tests.web_server import serving

FOLDER = Path(__file__).parent
CAT = Path(skimage.data.__file__).with_name("chelsea.png")
WIDTH = 1200
SETTLED = """(() => {  // whether nothing fades in any more
  for (let node = document.querySelector("#answers .gpunn"); node; node = node.parentElement)
    if (getComputedStyle(node).opacity !== "1") return false;
  return true;
})()"""
COLOURS = 256  # of a picture; more make the file three times as large


def main() -> None:
    with open_browser() as browser, tempfile.TemporaryDirectory() as folder:
        browser.show(WIDTH, 900)
        save("report.png", report(browser, Path(folder)))
        save("web_app.png", web_app(browser, Path(folder)))


def report(browser: Browser, folder: Path) -> bytes:
    """Return the report of our own model on the cat, without its longer parts."""
    page = folder / "report.html"
    write_report(gpunn.compare(vision.default_model(), CAT, per_layer=True), page)
    browser.open(page.as_uri())
    long = ".panel:not(:first-child), .layers details, [aria-labelledby=worst], [aria-labelledby=where]"
    browser.evaluate(f"document.querySelectorAll('{long}').forEach((node) => node.remove())")
    return browser.screenshot(whole=True)


def web_app(browser: Browser, folder: Path) -> bytes:
    """Return the page of demos/web_app.py with its answers on the cat."""
    with serving(folder) as (address, _):
        browser.show(1060, 760)
        browser.open(address)
        browser.wait_for("!!document.querySelector('#photo input[type=file]')")
        browser.upload("#photo input[type=file]", [CAT])
        browser.wait_for("document.querySelectorAll('#answers .card').length === 2")
        browser.wait_for(SETTLED)
        return browser.screenshot(whole=True)


def save(name: str, picture: bytes) -> None:
    """Save a picture as PNG file in this folder."""
    colours = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    colours.save(FOLDER / name, optimize=True)


if __name__ == "__main__":
    main()
