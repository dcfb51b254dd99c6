"""A page to try models on photos: what they show, how fast, where each operation ran, and a second opinion.

    pip install 'gpunn[demo]'
    python demos/web_app.py [--port 7860]

The page is for this machine alone. It asks the network for nothing, and its security policy forbids it to.
The first part of this file asks gpunn, the second part makes HTML, and the third part serves the page.
"""

from __future__ import annotations

import argparse
import base64
import io
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from pictures import run

import gpunn
from gpunn import vision

KEPT = 6  # compilations at a time: two backends of each of the last three choices
CALLS = 9  # whose median time is shown, unless they take more than a second


@dataclass(frozen=True)
class Choice:
    """A question: a model file, its class names if the file has none, the backend and the preference."""

    model: Path
    labels: Path | None
    backend: str
    preference: gpunn.Preference


@dataclass(frozen=True)
class Answer:
    """The answer to a question. seconds: the median of some calls; ready: the preparation before them, if
    any.
    """

    backend: str
    device: str
    best: tuple[vision.Guess, ...]
    probabilities: bool
    seconds: float
    ready: float | None
    placement: tuple[tuple[str, str, str, str], ...]

    @property
    def other(self) -> str:
        """Return the backend for a second opinion."""
        return "cpu" if self.backend == "webgpu" else "webgpu"

    @property
    def places(self) -> str:
        """Describe how many operations ran in each place."""
        where = Counter(place for _, _, place, _ in self.placement)
        return ", ".join(f"{count} {'on ' * (p != 'alias')}{p}" for p, count in where.most_common())


class Compiled:
    """The last KEPT compilations that were used; older ones are closed. One thread asks at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Path, str, gpunn.Preference], gpunn.Compilation] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, choice: Choice, photo: Path) -> Answer:
        """Return the best classes of a photo. Raises gpunn's errors, and OSError for files that cannot be
        opened.
        """
        with self._lock:
            start = time.perf_counter()
            key = choice.model, choice.backend, choice.preference
            known = self._kept.get(key)
            model = known.model if known else gpunn.load(choice.model)
            wanted, output = vision.photo_input(model), vision.score_output(model)
            labels = vision.class_labels(model, choice.labels)
            (x,) = wanted.batches(iter([wanted.values(vision.load_photo(photo))]))
            compiled = known or model.compile(choice.backend, choice.preference)
            compiled(x)  # the first call is a slow one
            self._kept[key] = compiled
            self._kept.move_to_end(key)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)[1].close()
            times = [time.perf_counter()]
            while len(times) <= CALLS and times[-1] < times[0] + 1:
                scores = output.scores(np.asarray(compiled(x)).reshape(wanted.batch, -1)[0])
                times.append(time.perf_counter())
        return Answer(
            compiled.backend,
            compiled.device,
            vision.top_k(scores, labels, 5),
            output.are_probabilities(scores),
            float(np.median(np.diff(times))),
            None if known is not None else times[0] - start,
            placement(compiled),
        )


def placement(compiled: gpunn.Compilation) -> tuple[tuple[str, str, str, str], ...]:
    """List each operation of a run with its result, where it ran, and why not on the GPU."""
    rows = []
    for place in compiled.placement:
        operation, activation = place.operation, place.operation.attrs.get("activation")
        called = f"{operation.op} + {activation}" if activation else operation.op
        rows.append((called, str(operation.outputs[0].type), place.backend, place.reason))
    return tuple(rows)


CSS = """
.gpunn { font-size: 1rem; line-height: 1.5 }
.gpunn .cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1rem }
.gpunn .card { border: 1px solid var(--border-color-primary); border-radius: 10px; padding: 1rem }
.gpunn h3 { margin: 0; font-size: 1.1rem; font-weight: 600 }
.gpunn .quiet { opacity: .75; font-size: .875rem; margin: 0 0 .5rem }
.gpunn .photo { max-height: 180px; max-width: 100%; border-radius: 10px; margin: 0 0 1rem }
.gpunn .guess { display: flex; justify-content: space-between; margin-top: .5rem }
.gpunn .bar { background: var(--border-color-primary); border-radius: 4px; overflow: hidden }
.gpunn .bar div { background: var(--color-accent); height: 8px; border-radius: 4px }
.gpunn .verdict { font-weight: 600; margin: 0 0 1rem }
.gpunn details { margin-top: 1rem } .gpunn summary { cursor: pointer }
.gpunn .scroll { overflow: auto; max-height: 20rem }
.gpunn table { font-size: .8125rem; border-collapse: collapse; width: 100% }
.gpunn th, .gpunn td { text-align: left; padding: .1rem .75rem .1rem 0; white-space: nowrap }
.gpunn.wrong { border-left: 4px solid #dc2626; padding: .5rem 1rem; overflow-wrap: anywhere }
"""
HINT = "<p class='gpunn'>Drop a photo on the left.</p>"


def wrong(error: Exception, files: Sequence[Path]) -> str:
    """Return an error as HTML, without the folders of uploaded files."""
    text = str(error)
    for file in files:
        text = text.replace(str(file), file.name)
    return f"<p class='gpunn wrong' role='alert'>{escape(text)}</p>"


def result(photo: Path, first: Answer, second: Answer | None) -> str:
    """Return the photo and one or two answers side by side as HTML."""
    cards = card(first) + (card(second) if second else "")
    return (
        f"<div class='gpunn'><img class='photo' alt='the photo' src='{_thumbnail(photo)}'>"
        f"{_verdict(first, second) if second else ''}<div class='cards'>{cards}</div></div>"
    )


def card(answer: Answer) -> str:
    """Return one backend's answer as HTML: best classes as bars, the time, the place of every operation."""
    ready = f"; {_time(answer.ready)} to make it ready" if answer.ready is not None else ""
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in answer.placement
    )
    return (
        f"<section class='card' data-backend='{answer.backend}'><h3>{escape(answer.backend)}</h3>"
        f"<p class='quiet'>{escape(answer.device)}<br>{_time(answer.seconds)} an answer{ready}</p>"
        f"{_bars(answer)}<details><summary>{len(answer.placement)} operations: {answer.places}</summary>"
        "<div class='scroll'><table><tr><th>operation</th><th>result</th><th>ran on</th>"
        f"<th>why not on the GPU</th></tr>{rows}</table></div></details></section>"
    )


def _bars(answer: Answer) -> str:
    """Return bars as HTML: probabilities from 0 to 1, other scores from 0 to the best one."""
    whole = 1.0 if answer.probabilities else max(answer.best[0].score, 1e-30)
    made = []
    for guess in answer.best:
        figure = f"{guess.score:.1%}" if answer.probabilities else f"{guess.score:.4g}"
        width = 100 * min(max(guess.score / whole, 0.0), 1.0)
        made.append(
            f"<div class='guess'><span>{escape(guess.label)}</span><span>{figure}</span></div>"
            f"<div class='bar'><div style='width: {width:.1f}%'></div></div>"
        )
    return "".join(made)


def _verdict(first: Answer, second: Answer) -> str:
    if first.best[0].index != second.best[0].index:
        return "<p class='verdict' role='alert'>The backends disagree.</p>"
    other = {guess.index: guess.score for guess in second.best}
    apart = max(abs(g.score - other[g.index]) for g in first.best if g.index in other)
    scores = f"their scores are at most {apart:.1g} apart" if apart else "with the same scores"
    return f"<p class='verdict'>Both say {escape(first.best[0].label)}; {scores}.</p>"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"


def _thumbnail(photo: Path) -> str:
    picture, data = vision.load_photo(photo), io.BytesIO()
    picture.thumbnail((480, 360))
    picture.save(data, "JPEG")
    return f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"


COMPILED = Compiled()
PREFERENCES = {p.name.replace("_", " ").lower(): p for p in gpunn.Preference}


def show(photo: str | None, model: str | None, labels: str | None, backend: str, preference: str) -> str:
    """Return HTML with the answers of the chosen backend and of the other one, or with what is wrong."""
    if photo is None:
        return HINT
    files = [Path(file) for file in (photo, model, labels) if file]
    file, names = Path(model) if model else vision.default_model(), Path(labels) if labels else None
    try:
        first = COMPILED.ask(Choice(file, names, backend, PREFERENCES[preference]), files[0])
    except (gpunn.GpunnError, OSError) as error:
        return wrong(error, files)
    try:
        other = Choice(file, names, first.other, PREFERENCES[preference])
        return result(files[0], first, COMPILED.ask(other, files[0]))
    except gpunn.GpunnError as error:
        return result(files[0], first, None) + wrong(error, files)


def page() -> Any:
    """Make the page as gradio's Blocks."""
    import gradio as gr

    with gr.Blocks(title="gpunn", analytics_enabled=False, delete_cache=(600, 86400)) as blocks:
        gr.Markdown("# gpunn\nNeural networks on any GPU: drop a photo, and compare the GPU with the CPU.")
        with gr.Row():
            with gr.Column(scale=1, min_width=280):
                photo = gr.File(label="Photo", elem_id="photo", height=150)
                model = gr.File(
                    label="Model: a .tflite or .mlmodel file; none is gpunn's own",
                    elem_id="model",
                    height=150,
                )
                labels = gr.File(label="Class names, one a line", elem_id="labels", height=150)
                backend = gr.Radio(["auto", "webgpu", "cpu"], value="auto", label="Backend")
                preference = gr.Radio(list(PREFERENCES), value="fast single answer", label="Preference")
            with gr.Column(scale=2, min_width=320):
                answers = gr.HTML(HINT, elem_id="answers")
        inputs = [photo, model, labels, backend, preference]
        gr.on([i.change for i in inputs], show, inputs, answers, concurrency_limit=1, api_name=False)
    return blocks


POLICY = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; base-uri 'self'; form-action 'self'"
)


class OnlyFromHere:
    """Middleware (ASGI) that forbids the page to load anything from elsewhere."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer as the app does, with one header more."""

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
            await send(message)

        await self.app(scope, receive, answer)


def main() -> None:
    """Serve the page until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--port", type=int, default=7860)
    options = parser.parse_args()
    try:
        import gradio as gr
        from starlette.middleware import Middleware
    except ImportError:
        raise SystemExit("the page needs gradio: pip install 'gpunn[demo]'") from None
    theme = gr.themes.Default(font=gr.themes.Font("sans-serif"), font_mono=gr.themes.Font("monospace"))
    page().launch(
        server_name="127.0.0.1",
        server_port=options.port,
        ssr_mode=False,
        theme=theme,
        css=CSS,
        app_kwargs={"middleware": [Middleware(OnlyFromHere)]},
        max_file_size="2gb",
        footer_links=[],
    )


if __name__ == "__main__":
    run(main)
