"""The HTML of web_app.py: answers, errors, examples, and the script of the examples and the webcam."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from web_answers import Answer, thumbnail
from web_teach import Taught

from gpunn import vision

CSS = """
.gpunn { font-size: 1rem; line-height: 1.5 }
.gpunn .cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1rem }
.gpunn .card { border: 1px solid var(--border-color-primary); border-radius: 10px; padding: 1rem }
.gpunn h3 { margin: 0; font-size: 1.1rem; font-weight: 600 }
.gpunn .quiet { opacity: .75; font-size: .875rem; margin: 0 0 .5rem }
.gpunn .photo { max-height: 160px; max-width: 100%; border-radius: 10px; margin: 0 }
.gpunn .guess { display: flex; justify-content: space-between; margin-top: .5rem }
.gpunn .bar { background: var(--border-color-primary); border-radius: 4px; overflow: hidden }
.gpunn .bar div { background: var(--color-accent); height: 8px; border-radius: 4px }
.gpunn .said { font-size: 1.25rem; font-weight: 600; line-height: 1.3; margin: 0 0 .25rem }
.gpunn .verdict { margin: 0 0 .25rem }
.gpunn .verdict bdi { white-space: nowrap }
.gpunn .shown { display: flex; gap: 1rem; flex-wrap: wrap; margin-bottom: 1rem }
.gpunn .shown > div { flex: 1 1 14rem; min-width: 0 }
.gpunn details { margin-top: 1rem } .gpunn summary { cursor: pointer }
.gpunn .scroll { overflow: auto; max-height: 20rem }
.gpunn table { font-size: .8125rem; border-collapse: collapse; width: 100% }
.gpunn th, .gpunn td { text-align: left; padding: .1rem .75rem .1rem 0; white-space: nowrap }
.gpunn .examples { display: flex; gap: .5rem; flex-wrap: wrap }
.gpunn .examples button { padding: 0; border: 2px solid var(--border-color-primary); border-radius: 10px;
  overflow: hidden; width: 62px; height: 62px; flex: none; line-height: 0 }
.gpunn .examples img { display: block; width: 58px; height: 58px; object-fit: cover; margin: 0 }
.gpunn .camera { margin-top: .5rem }
.gpunn .camera button { border: 1px solid var(--border-color-primary); border-radius: 8px;
  padding: .4rem .9rem }
.gpunn .camera video { width: 100%; max-height: 200px; border-radius: 10px; margin-bottom: .5rem }
.gpunn .camera p { margin: .25rem 0 0 }
.gpunn button:focus-visible, .gpunn button:hover { border-color: var(--color-accent) }
#layout { display: grid; grid-template-columns: minmax(270px, 1fr) minmax(0, 2fr);
  grid-template-rows: auto 1fr; grid-template-areas: "ask answers" "settings answers"; align-items: start }
#ask { grid-area: ask } #answer-column { grid-area: answers } #settings { grid-area: settings }
@media (max-width: 760px) {
  #layout { grid-template-columns: minmax(0, 1fr); grid-template-rows: none;
    grid-template-areas: "ask" "answers" "settings" }
}
.gpunn .curve { width: 100%; max-width: 24rem; height: 4rem; display: block; overflow: visible }
.gpunn .curve polyline { fill: none; stroke: var(--color-accent); stroke-width: 2;
  vector-effect: non-scaling-stroke }
.gpunn.wrong { border-left: 4px solid #dc2626; padding: .5rem 1rem; overflow-wrap: anywhere }
"""
TEACH_HINT = (
    "<p class='gpunn'>Give two or three names, and some photos for each: ten are better than two. The last "
    "layer of the model learns them; all else of it stays.</p>"
)
HINT = "<p class='gpunn'>Choose a photo, an example, or the webcam.</p>"
# Gives the page a file as if it had been chosen: an example, or a picture of the webcam.
SCRIPT = """<script>
async function give(file) {
  const box = document.querySelector("#photo"), find = () => box.querySelector("input[type=file]");
  if (!find()) box.querySelector("button[aria-label=Clear], button[title=Clear]")?.click();
  for (let i = 0; i < 100 && !find(); i++) await new Promise((done) => setTimeout(done, 20));
  const data = new DataTransfer();
  data.items.add(file);
  find().files = data.files;
  find().dispatchEvent(new Event("change", { bubbles: true }));
}
async function useExample(button) {
  const data = await (await fetch(button.querySelector("img").src)).blob();
  await give(new File([data], button.dataset.name.replace(/\\.\\w+$/, ".jpg"), { type: data.type }));
}
const REFUSALS = {
  NotAllowedError: "The browser does not let this page use the camera. Allow it beside the address.",
  NotFoundError: "The browser finds no camera.",
  NotReadableError: "Another program uses the camera.",
};
async function useCamera(button) {
  const video = button.parentElement.querySelector("video"), said = button.parentElement.querySelector("p");
  const end = () => {
    video.srcObject?.getTracks().forEach((track) => track.stop());
    video.srcObject = null;
    video.hidden = true;
    button.textContent = "Use the webcam";
  };
  said.textContent = "";
  if (video.srcObject) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
    canvas.getContext("2d").drawImage(video, 0, 0);
    end();
    canvas.toBlob((data) => give(new File([data], "webcam.jpg", { type: data.type })), "image/jpeg", 0.92);
    return;
  }
  if (!navigator.mediaDevices?.getUserMedia) {
    said.textContent = "The browser gives no camera to this address; open the page as http://localhost.";
    return;
  }
  try {
    video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    video.hidden = false;
    await video.play();
    button.textContent = "Take the picture";
  } catch (error) {
    end();
    said.textContent = REFUSALS[error.name] ?? `The camera does not work: ${error.message}`;
  }
}
document.addEventListener("click", (event) => {
  const example = event.target.closest(".example"), camera = event.target.closest("#camera");
  if (example) useExample(example);
  if (camera) useCamera(camera);
});
</script>"""


def wrong(error: Exception, files: Sequence[Path]) -> str:
    """Return an error as HTML, without the folders of uploaded files."""
    text = str(error)
    for file in files:
        text = text.replace(str(file), file.name)
    return f"<p class='gpunn wrong' role='alert'>{escape(text)}</p>"


def result(first: Answer, second: Answer | None) -> str:
    """Return the photo and one or two answers side by side as HTML."""
    cards = card(first) + (card(second) if second else "")
    return (
        "<div class='gpunn'><div class='shown'>"
        f"<img class='photo' alt='the photo' src='{escape(first.thumbnail)}'><div>"
        f"<p class='said' role='status'>{escape(first.said)}</p>{_verdict(first, second) if second else ''}"
        f"<p class='quiet'>{escape(first.knows)}<br>{escape(first.pixels)}</p></div></div>"
        f"<div class='cards'>{cards}</div></div>"
    )


def taught(lesson: Taught) -> str:
    """Return what became of a lesson as HTML: a table of epochs, and a curve of the loss."""
    losses = [loss for loss, _ in lesson.epochs]
    whole = max(*losses, 1e-6)
    points = [(100 * k / max(len(losses) - 1, 1), 40 - 38 * loss / whole) for k, loss in enumerate(losses)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    last, accuracy = lesson.epochs[-1]
    named = ""
    if accuracy is not None:
        named = f"; of other photos it names {accuracy:.0%} rightly ({lesson.measured})"
    early = "" if lesson.on_time else " The lesson ended early, because time was up (--seconds)."
    left = f" Files that are no photos: {lesson.skipped}." if lesson.skipped else ""
    return (
        "<div class='gpunn'><p class='said' role='status'>"
        f"Now it knows {escape(', '.join(lesson.labels))}.</p>"
        f"<svg class='curve' viewBox='0 0 100 41' role='img' aria-label='the loss falls from {losses[0]:.2f} "
        f"to {last:.2f}' preserveAspectRatio='none'><polyline points='{line}'/></svg>"
        f"<p class='quiet'>Loss {losses[0]:.2f} to {last:.2f} in {len(losses)} rounds over {lesson.trained} "
        f"photos{named}. {_time(lesson.seconds)} on {escape(lesson.device)}.{early}{left} "
        "Ask it with a photo above.</p></div>"
    )


def examples(photos: Sequence[Path]) -> str:
    """Return buttons with photos to try, and one for the webcam, as HTML; SCRIPT makes them work."""
    buttons = "".join(
        f"<button type='button' class='example' data-name='{escape(photo.name)}'>"
        f"<img alt='{escape(photo.stem)}' src='{thumbnail(vision.load_photo(photo))}'></button>"
        for photo in photos
    )
    shown = f"<div class='examples' role='group' aria-label='examples'>{buttons}</div>" if buttons else ""
    return (
        f"<div class='gpunn'>{shown}<div class='camera'><video hidden playsinline muted></video>"
        "<button type='button' id='camera'>Use the webcam</button>"
        "<p class='quiet' role='status'></p></div></div>"
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
    scores = f"their scores are at most <bdi>{apart:.1g}</bdi> apart" if apart else "with the same scores"
    label = "so" if first.known is False else escape(first.best[0].label)
    return f"<p class='verdict'>Both say {label}; {scores}.</p>"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"
