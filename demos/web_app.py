"""A page to try models on photos: what they show, how fast, where each operation ran, and a second opinion.

    pip install 'gpunn[demo]'
    python demos/web_app.py [--port 7860] [--seconds 20] [--upload 200] [--memory 4096]

The page is for this machine alone. It asks the network for nothing, and its security policy forbids it to.
An answer may take --seconds; uploads may have --upload MB, and the process that answers --memory MB.
Below, it can be taught two or three other classes from a few photos of each, and then be asked about them.
web_answers.py asks gpunn, web_teach.py teaches, web_html.py makes HTML, web_guard.py refuses requests;
SECURITY.md says more.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pictures import run
from web_answers import Answer, Choice, Compiled, NoAnswerError, Worker
from web_guard import Guard
from web_html import CSS, HINT, SCRIPT, TEACH_HINT, examples, result, taught, wrong
from web_teach import SLOTS, Lesson, LessonError, Taught, lesson_of

import gpunn
from gpunn import vision

WAITING = 16  # questions at a time; further ones are refused
EXAMPLES = "chelsea.png", "horse.png", "coffee.png", "astronaut.png"
AS_STATED = "as the model states"
TAUGHT_KEPT = 8  # classifiers that the page has been taught; older ones are deleted

COMPILED = Compiled()
PREFERENCES = {p.name.replace("_", " ").lower(): p for p in gpunn.Preference}
Ask = Callable[[Choice, Path], Answer]
Teach = Callable[[Lesson], Taught]


def show(
    photo: str | None,
    model: str | None,
    labels: str | None,
    backend: str,
    preference: str,
    pixels: str = AS_STATED,
    ask: Ask | None = None,
) -> str:
    """Return HTML with the answers of the chosen backend and of the other one, or with what is wrong.

    pixels: one of vision.RANGES, or AS_STATED. ask: what answers; without it, this process.
    """
    if photo is None:
        return HINT
    ask = ask or COMPILED.ask
    files = [Path(file) for file in (photo, model, labels) if file]
    file, names = Path(model) if model else vision.default_model(), Path(labels) if labels else None
    scale = None if pixels == AS_STATED else pixels
    chosen = functools.partial(Choice, file, names, preference=PREFERENCES[preference], pixels=scale)
    try:
        first = ask(chosen(backend=backend), files[0])
    except (gpunn.GpunnError, OSError, NoAnswerError) as error:
        return wrong(error, files)
    try:
        return result(first, ask(chosen(backend=first.other), files[0]))
    except (gpunn.GpunnError, NoAnswerError) as error:
        return result(first, None) + wrong(error, files)


class TaughtModels:
    """The classifiers that the page has been taught: the last few, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers = folder, itertools.count(1)

    def lesson(
        self, names: list[str], files: list[list[str] | None], model: str | None, backend: str, pixels: str
    ) -> Lesson:
        """Return the lesson of the page's form. Raises LessonError for one that does not fit."""
        number = next(self._numbers)
        for old in self._folder.glob(f"taught-{number - TAUGHT_KEPT}.*"):
            old.unlink()
        source = Path(model) if model else vision.default_model()
        return lesson_of(
            names,
            [some or [] for some in files],
            model=source,
            backend=backend,
            pixels=None if pixels == AS_STATED else pixels,
            output=self._folder / f"taught-{number}{source.suffix}",
        )


def photos() -> list[Path]:
    """Return scikit-image's photos for the examples; none without scikit-image."""
    try:
        import skimage.data
    except ImportError:
        return []
    return [Path(skimage.data.__file__).with_name(name) for name in EXAMPLES]


def page(ask: Ask, teach: Teach, models: TaughtModels) -> Any:
    """Make the page as gradio's Blocks; `ask` answers, `teach` makes classifiers in files of `models`."""
    import gradio as gr

    def answer(known: str | None, photo: Any, model: Any, labels: Any, *settings: Any) -> str:
        files = (known, None) if known else (model, labels)
        return show(photo, *files, *settings, ask=ask)

    def learn(model: str | None, backend: str, pixels: str, *form: Any) -> tuple[str | None, str]:
        uploads = [Path(file) for files in form[SLOTS:] for file in files or ()]
        try:
            lesson = models.lesson([*form[:SLOTS]], [*form[SLOTS:]], model, backend, pixels)
            return str(lesson.output), taught(teach(lesson))
        except (gpunn.GpunnError, OSError, NoAnswerError, LessonError) as error:
            return None, wrong(error, [*uploads, Path(model or "")])

    with gr.Blocks(title="gpunn", analytics_enabled=False, delete_cache=(60, 3600)) as blocks:
        gr.Markdown("# gpunn\nNeural networks on any GPU: choose a photo, and compare the GPU with the CPU.")
        with gr.Row(elem_id="layout"):
            with gr.Column(elem_id="ask", min_width=0):
                photo = gr.File(label="Photo", elem_id="photo", height=150)
                gr.HTML(examples(photos()), elem_id="examples")
            with gr.Column(elem_id="answer-column", min_width=0):
                answers = gr.HTML(HINT, elem_id="answers")
            with gr.Column(elem_id="settings", min_width=0):
                model = gr.File(label="Model (.tflite, .mlmodel)", elem_id="model", height=150)
                labels = gr.File(label="Class names, one a line", elem_id="labels", height=150)
                pixels = gr.Radio(
                    [AS_STATED, *vision.RANGES], value=AS_STATED, label="Pixels", elem_id="pixels"
                )
                backend = gr.Radio(["auto", "webgpu", "cpu"], value="auto", label="Backend")
                preference = gr.Radio(list(PREFERENCES), value="fast single answer", label="Preference")
        known = gr.State(None)
        with gr.Accordion("Teach it, then ask it", open=False, elem_id="teach"):
            with gr.Row():
                rows = [_name_and_photos(gr, number) for number in range(SLOTS)]
            with gr.Row():
                start = gr.Button("Teach", elem_id="learn")
                forget = gr.Button("Forget", elem_id="forget")
            lesson = gr.HTML(TEACH_HINT, elem_id="lesson")
        inputs = [known, photo, model, labels, backend, preference, pixels]
        changes = [i.change for i in (photo, labels, backend, preference, pixels)]
        gr.on(changes, answer, inputs, answers, concurrency_limit=1, api_name=False)
        form = [model, backend, pixels, *(row[0] for row in rows), *(row[1] for row in rows)]
        learned = start.click(learn, form, [known, lesson], concurrency_limit=1, api_name=False)
        forgotten = forget.click(lambda: (None, TEACH_HINT), None, [known, lesson], api_name=False)
        for event in (learned, forgotten, model.change(lambda: (None, TEACH_HINT), None, [known, lesson])):
            event.then(answer, inputs, answers, concurrency_limit=1, api_name=False)
    return blocks.queue(max_size=WAITING)


def _name_and_photos(gr: Any, number: int) -> tuple[Any, Any]:
    """Return the fields of a name and its photos, one below the other."""
    hint = ("my cat", "my dog", "neither")[number]
    with gr.Column(min_width=240):
        name = gr.Textbox(
            label=f"Name {number + 1}", placeholder=hint, max_length=60, elem_id=f"name-{number}"
        )
        photos = gr.File(label="Photos of it", file_count="multiple", elem_id=f"lesson-{number}", height=120)
    return name, photos


def _terminated(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)  # as shells report it; the worker and the classifiers are cleaned up first


def main() -> None:
    """Serve the page until interrupted or terminated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--port", type=int, default=7860)
    parser.add_argument("--seconds", type=float, default=20.0, help="that an answer may take (default 20)")
    parser.add_argument("--upload", type=int, default=200, metavar="MB", help="of a file (default 200)")
    parser.add_argument("--memory", type=int, default=4096, metavar="MB", help="of an answer (default 4096)")
    options = parser.parse_args()
    if not 0 <= options.port < 1 << 16:
        parser.error(f"--port is a number from 0 to 65535, got {options.port}")
    try:
        import gradio as gr
        from starlette.middleware import Middleware
    except ImportError:
        raise SystemExit("the page needs gradio: pip install 'gpunn[demo]'") from None
    theme = gr.themes.Default(font=gr.themes.Font("sans-serif"), font_mono=gr.themes.Font("monospace"))
    worker = Worker(options.seconds, options.memory << 20, options.upload << 20)
    folder = tempfile.TemporaryDirectory(prefix="gpunn-taught-")
    signal.signal(signal.SIGTERM, _terminated)
    code = 0
    try:
        app = page(worker.ask, worker.teach, TaughtModels(Path(folder.name)))
        app.launch(
            server_name="127.0.0.1",
            server_port=options.port,
            ssr_mode=False,
            theme=theme,
            css=CSS,
            head=SCRIPT,
            app_kwargs={"middleware": [Middleware(Guard, most=options.upload << 20)]},
            max_file_size=f"{options.upload}mb",
            footer_links=[],
            quiet=True,  # it would advise to publish the page
            prevent_thread_lock=True,
        )
        print(f"Running on {app.local_url}", flush=True)
        app.block_thread()
    except SystemExit as terminated:
        code = int(terminated.code or 0)
    finally:
        worker.close()
        folder.cleanup()
    # Threads of the server still answer. Python would end them wherever they are, some in the midst of C++,
    # which then aborts the process.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run(main)
