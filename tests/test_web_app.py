"""The page of demos/web_app.py: its results, with and without a browser."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn import vision
from tests.browser import Browser
from tests.importers.coreml import twins
from tests.resources import ROOT
from tests.web_server import colours, noise, serving

FAST = "fast single answer"
UPLOAD = "#{} input[type=file]"


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "demos")
    return importlib.import_module("web_app")


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(3).integers(0, 256, (50, 60, 3), np.uint8)).save(path)
    return path


def test_page_shows_both_backends(app: ModuleType, photo: Path, gpu: str) -> None:
    html = app.show(str(photo), None, None, "cpu", FAST)
    assert re.findall("data-backend='(.*?)'", html) == ["cpu", gpu]
    guesses = re.findall("<span>(.*?)</span><span>(.*?)%</span>", html)
    assert len(guesses) == 10
    assert {label for label, _ in guesses} <= set(gpunn.load(vision.default_model()).labels)
    assert [float(share) for _, share in guesses[:5]] == sorted([float(s) for _, s in guesses[:5]])[::-1]
    assert "Both say" in html
    (label,) = re.findall("<p class='said' role='status'>nothing I know for sure \\(most like: (.*?) ", html)
    assert label in html  # the photo is noise
    assert "cifar10_mobilenet.tflite knows 10 classes: airplane, automobile" in html
    assert "pixels as -1..1" in html
    assert "33 operations: 33 on cpu" in html  # three of them scale the bytes and find the best classes
    assert html.count("<td>softmax</td>") == 2
    assert "make it ready" in html
    assert "make it ready" not in app.show(str(photo), None, None, "cpu", FAST)  # kept


def test_mlmodel_has_its_own_labels(app: ModuleType, photo: Path, tmp_path: Path, gpu: str) -> None:
    model = tmp_path / "pets.mlmodel"
    model.write_bytes(twins.mlmodel())
    html = app.show(str(photo), str(model), None, "cpu", FAST)
    assert re.findall("data-backend='(.*?)'", html) == ["cpu", gpu]
    assert set(re.findall("<span>(.*?)</span><span>.*?%</span>", html)) == set(twins.LABELS)
    assert "Both say" in html


def test_the_page_reports_a_missing_gpu(
    app: ModuleType, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = app.COMPILED.ask

    def no_gpu(choice: object, file: Path) -> object:
        if choice.backend == "webgpu":  # type: ignore[attr-defined]
            raise gpunn.DeviceError("no adapter <b>")
        return ask(choice, file)

    monkeypatch.setattr(app.COMPILED, "ask", no_gpu)
    html = app.show(str(photo), None, None, "cpu", FAST)
    assert re.findall("data-backend='(.*?)'", html) == ["cpu"]
    assert "no adapter &lt;b&gt;" in html


@pytest.mark.parametrize("which", ["text", "damaged", "model", "labels", "gone"])
def test_wrong_file_is_named(app: ModuleType, photo: Path, tmp_path: Path, which: str) -> None:
    text = tmp_path / "<i>notes.txt"
    text.write_text("not what it should be " * 9)
    damaged = tmp_path / "damaged.png"
    damaged.write_bytes(photo.read_bytes()[:200])
    files = {
        "text": (text, None, None),
        "damaged": (damaged, None, None),
        "model": (photo, text, None),
        "labels": (photo, None, text),
        "gone": (tmp_path / "gone.png", None, None),
    }[which]
    html = app.show(*(str(file) if file else None for file in files), "cpu", FAST)
    assert "role='alert'" in html
    assert "<section" not in html
    names = {"damaged": "damaged.png", "gone": "gone.png"}
    assert names.get(which, "&lt;i&gt;notes.txt") in html
    assert str(tmp_path) not in html


def test_compilations_unused_for_longest_are_closed(
    app: ModuleType, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["web_answers"], "KEPT", 2)
    compiled, made = app.Compiled(), []
    real = gpunn.Model.compile
    monkeypatch.setattr(gpunn.Model, "compile", lambda *args: made.append(real(*args)) or made[-1])

    def ask(preference: gpunn.Preference) -> None:
        compiled.ask(app.Choice(vision.default_model(), None, "cpu", preference), photo)

    low, fast, sustained = gpunn.Preference
    for preference in (low, fast, low, sustained, low):
        ask(preference)
    assert len(made) == 3
    x = np.zeros((1, 32, 32, 3), np.float32)
    with pytest.raises(gpunn.DeviceError):
        made[1](x)  # the one that has been unused for longest
    made[0](x)
    made[2](x)


@pytest.mark.parametrize("pixels", ["-1..1", "0..1", "0..255"])
def test_pixels_are_scaled_as_chosen(app: ModuleType, photo: Path, pixels: str) -> None:
    html = app.show(str(photo), None, None, "cpu", FAST, pixels)
    assert f"pixels as {pixels}" in html
    model = gpunn.load(vision.default_model())
    x = vision.preprocess(model, photo, *vision.RANGES[pixels])
    with model.compile("cpu") as compiled:
        scores = vision.score_output(model).scores(compiled(x)[0])
    best = vision.top_k(scores, model.labels, 1)[0]
    assert f"<span>{best.label}</span><span>{best.score:.1%}</span>" in html


def test_pixels_of_a_model_that_scales_them_itself(app: ModuleType, photo: Path, tmp_path: Path) -> None:
    model = tmp_path / "pets.mlmodel"
    model.write_bytes(twins.mlmodel())
    assert "leave out mean and std" in app.show(str(photo), str(model), None, "cpu", FAST, "0..1")
    assert "pixels as 0..255" in app.show(str(photo), str(model), None, "cpu", FAST)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Serve the page; return its address, and the file of its program's output."""
    if importlib.util.find_spec("gradio") is None:
        pytest.skip("gradio is not installed (extra: demo)")
    with serving(tmp_path_factory.mktemp("app")) as served:
        yield served


def test_page_in_a_browser(browser: Browser, address: tuple[str, Path], tmp_path: Path, gpu: str) -> None:
    cat = Path(pytest.importorskip("skimage.data").__file__).with_name("chelsea.png")
    where, log = address
    browser.show(1100, 900)
    browser.open(where)
    browser.wait_for(f"!!document.querySelector('{UPLOAD.format('photo')}')")
    browser.upload(UPLOAD.format("photo"), [cat])
    browser.wait_for("document.querySelectorAll('#answers .card').length == 2")
    for backend in ("cpu", gpu):
        guess = browser.evaluate(
            f"document.querySelector('#answers [data-backend={backend}] .guess').innerText"
        )
        assert guess.split()[0] == "cat"
    (tmp_path / "notes.txt").write_text("this is no model, but long enough to be looked at")
    browser.upload(UPLOAD.format("model"), [tmp_path / "notes.txt"])
    said = browser.wait_for("document.querySelector('#answers [role=alert]')?.innerText")
    assert said.startswith("notes.txt")
    assert "Traceback" not in browser.evaluate("document.body.innerText")
    assert "Traceback" not in log.read_text()
    elsewhere = [a for a in browser.requests if not a.startswith((where, "data:", f"blob:{where}"))]
    assert elsewhere == []
    assert browser.complaints == []
    assert "asks for" not in log.read_text()


def said(browser: Browser, before: str | None = None) -> str:
    """Wait for another answer than `before`; return it."""
    shown = "document.querySelector('#answers .said')?.innerText"
    return str(browser.wait_for(f"{shown} && {shown} !== {json.dumps(before)} && {shown}"))


def test_examples(browser: Browser, address: tuple[str, Path]) -> None:
    pytest.importorskip("skimage.data")
    browser.show(1100, 900)
    browser.open(address[0])
    browser.wait_for("document.querySelectorAll('.example').length === 4")
    button = "document.querySelector('.example[data-name=\"{}\"]').click()"
    browser.evaluate(button.format("chelsea.png"))
    first = said(browser)
    assert first.startswith("cat 9")
    browser.evaluate(button.format("coffee.png"))  # in place of the one before
    assert said(browser, first).startswith("nothing I know for sure (most like: ")
    assert browser.complaints == []


def test_the_page_is_taught_and_asked(browser: Browser, address: tuple[str, Path], tmp_path: Path) -> None:
    """Two names with photos, a question about a photo, and the model of before."""
    browser.show(1100, 1200)
    browser.open(address[0])
    browser.wait_for("!!document.querySelector('#teach button')")
    browser.evaluate("document.querySelector('#teach button').click()")
    for number, (name, files) in enumerate(colours(tmp_path).items()):
        box = f"document.querySelector('#name-{number}').querySelector('textarea, input')"
        browser.wait_for(f"!!document.querySelector('#name-{number}') && !!{box}")
        browser.evaluate(f"{box}.value = {json.dumps(name)}")
        browser.evaluate(f"{box}.dispatchEvent(new Event('input', {{bubbles: true}}))")
        browser.upload(UPLOAD.format(f"lesson-{number}"), list(map(Path, files)))
        browser.wait_for(f"document.querySelector('#lesson-{number}').innerText.includes('{name}-4')")
    browser.evaluate("document.querySelector('#learn').click()")
    browser.wait_for("document.querySelector('#lesson').innerText.includes('Now it knows red, blue.')")
    browser.upload(UPLOAD.format("photo"), [noise(tmp_path)])
    answers = "document.querySelector('#answers').innerText"
    browser.wait_for(f"{answers}.includes('knows 2 classes: red, blue')")
    browser.evaluate("document.querySelector('#forget').click()")
    browser.wait_for(f"{answers}.includes('knows 10 classes: airplane')")
    assert "Traceback" not in address[1].read_text()
    assert browser.complaints == []


def test_webcam(browser: Browser, address: tuple[str, Path]) -> None:
    """Chromium's camera for tests shows a green picture."""
    where = address[0]
    origin = where.rstrip("/")
    browser.show(1100, 900)
    browser.call("Browser.setPermission", permission={"name": "camera"}, setting="granted", origin=origin)
    browser.open(where)
    browser.wait_for("!!document.querySelector('#camera')")
    browser.evaluate("document.querySelector('#camera').click()")
    browser.wait_for("document.querySelector('#camera').innerText === 'Take the picture'")
    browser.wait_for("document.querySelector('.camera video').videoWidth > 0")
    browser.evaluate("document.querySelector('#camera').click()")
    assert said(browser)
    assert "webcam" in browser.evaluate("document.querySelector('#photo').innerText")
    assert browser.evaluate("document.querySelector('.camera video').hidden")
    assert browser.evaluate("document.querySelector('.camera video').srcObject") is None  # the light is off


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        ("", "The browser does not let this page use the camera."),
        ("delete MediaDevices.prototype.getUserMedia", "open the page as http://localhost"),
    ],
)
def test_a_camera_that_the_browser_refuses_is_explained(
    browser: Browser, address: tuple[str, Path], refusal: str, text: str
) -> None:
    where = address[0]
    denied = {"name": "camera"}
    browser.call("Browser.setPermission", permission=denied, setting="denied", origin=where.rstrip("/"))
    browser.open(where)
    browser.wait_for("!!document.querySelector('#camera')")
    browser.evaluate(refusal or "0")
    browser.evaluate("document.querySelector('#camera').click()")
    assert text in browser.wait_for("document.querySelector('.camera p').innerText")


@pytest.mark.parametrize("width", [360, 1280])
def test_the_answer_stands_near_the_photo(browser: Browser, address: tuple[str, Path], width: int) -> None:
    """On a phone it follows the photo and the examples; on a wide window it stands beside them."""
    pytest.importorskip("skimage.data")
    browser.show(width, 800)
    browser.open(address[0])
    browser.wait_for("document.querySelectorAll('.example').length === 4")
    browser.evaluate("document.querySelector('.example').click()")
    said(browser)
    top = browser.evaluate("document.querySelector('#answers .photo').getBoundingClientRect().top + scrollY")
    assert top < 600
    settings = browser.evaluate("document.querySelector('#settings').getBoundingClientRect().top + scrollY")
    answers = browser.evaluate("document.querySelector('#answers').getBoundingClientRect().bottom + scrollY")
    assert (settings >= answers) == (width == 360)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    choose = "[...document.querySelectorAll('#pixels label')].find((n) => n.innerText.trim() === '0..255')"
    browser.evaluate(f"{choose}.querySelector('input').click()")
    browser.wait_for("document.querySelector('#answers').innerText.includes('pixels as 0..255')")
