"""The lessons of demos/web_app.py's page: what they teach, and their bounds."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

import gpunn
from tests.finetuning.models import two_layers
from tests.web_server import colours, demo

FAST = "fast single answer"


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return demo("web_app", monkeypatch)


def test_what_was_taught_can_be_asked(app: ModuleType, tmp_path: Path) -> None:
    model, photos = tmp_path / "pets.tflite", colours(tmp_path)
    model.write_bytes(two_layers())
    models, worker = app.TaughtModels(tmp_path), app.Worker(60.0, 8 << 30)
    try:
        names, files = ["red", " blue", ""], [photos["red"], photos["blue"], None]
        lesson = models.lesson(names, files, str(model), "cpu", app.AS_STATED)
        found = worker.teach(lesson)
        assert (found.labels, found.trained, found.measured) == (("red", "blue"), 8, 2)
        assert found.on_time
        assert "Now it knows red, blue." in app.taught(found)
        html = app.show(photos["red"][0], str(lesson.output), None, "cpu", FAST, ask=worker.ask)
        assert f"{lesson.output.name} knows 2 classes: red, blue" in html
        for _ in range(app.TAUGHT_KEPT):
            again = models.lesson(names, files, str(model), "cpu", app.AS_STATED)
        assert not lesson.output.exists()
        assert again.output != lesson.output
        (tmp_path / "text.png").write_text("no photo")
        files[0] = [str(tmp_path / "text.png")]
        with pytest.raises(app.NoAnswerError, match="class 'red' has 0 photos"):
            worker.teach(models.lesson(names, files, str(model), "cpu", app.AS_STATED))
    finally:
        worker.close()


def test_a_lesson_ends_in_time(app: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 4 s it keeps what it has learned, of epochs that would take much longer."""
    teaching = importlib.import_module("web_teach")
    monkeypatch.setattr(teaching, "EPOCHS", 10**6)
    models, photos = app.TaughtModels(tmp_path), colours(tmp_path, 2)
    lesson = models.lesson([*photos, ""], [*photos.values(), None], None, "cpu", app.AS_STATED)
    found = teaching.teach(lesson, 4.0, None)
    assert not found.on_time
    assert 2.5 < found.seconds < 30
    assert (found.trained, found.measured) == (4, 0)
    assert gpunn.load(lesson.output).labels == ("red", "blue")


@pytest.mark.parametrize(
    ("names", "counts", "text"),
    [
        (("", "", ""), (0, 0, 0), "Give two different names"),
        (("a", "", ""), (3, 0, 0), "Give two different names"),
        (("a", "a ", "b"), (3, 3, 3), "Two names are the same"),
        (("a", "b", ""), (3, 0, 0), "b has no photos"),
        (("a", "b", ""), (3, 3, 3), "A name is missing"),
        (("a", "b", ""), (60, 60, 0), "These are 120 photos; a lesson has up to 100"),
    ],
)
def test_lessons_that_do_not_fit(
    app: ModuleType, tmp_path: Path, names: tuple[str, ...], counts: tuple[int, ...], text: str
) -> None:
    files = [["photo.png"] * count or None for count in counts]
    with pytest.raises(app.LessonError, match=text):
        app.TaughtModels(tmp_path).lesson([*names], files, None, "cpu", app.AS_STATED)
