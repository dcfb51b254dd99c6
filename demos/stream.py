"""Classifies frames as they come and shows how many a second: a webcam, a video, a GIF or a folder.

    python demos/stream.py SOURCE [--model FILE] [--labels FILE] [--backend auto|webgpu|cpu] [--most N]

SOURCE is a folder of photos or an animated picture, or with PyAV (pip install 'gpunn[demo]') a video file or
"camera:DEVICE", a webcam as FFmpeg calls it: camera:/dev/video0, on macOS camera:0, on Windows
camera:video=NAME. preference=SUSTAINED_SPEED keeps several frames under way at a time: the next one is read
while the GPU is at work.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pictures import run
from PIL import Image, ImageSequence, UnidentifiedImageError

import gpunn
from gpunn import vision

CAMERAS = {"linux": "v4l2", "darwin": "avfoundation", "win32": "dshow"}  # FFmpeg's ways to read them


def frames(source: str) -> Iterator[Image.Image]:
    """Yield the pictures of a source, one after the other."""
    path = Path(source)
    if source.startswith("camera:"):
        yield from video(source.removeprefix("camera:"), CAMERAS.get(sys.platform))
    elif path.is_dir():
        for file in sorted(path.iterdir()):
            try:
                yield vision.load_photo(file)
            except (gpunn.FormatError, IsADirectoryError) as error:
                print(f"left out: {error}", file=sys.stderr)
    else:
        try:
            with Image.open(path) as picture:
                for frame in ImageSequence.Iterator(picture):
                    yield frame.convert("RGB")
        except UnidentifiedImageError:
            yield from video(source, None)


def video(file: str, system: str | None) -> Iterator[Image.Image]:
    """Yield the frames of a video file, or of a camera of FFmpeg's input device `system`."""
    try:
        import av
    except ImportError:
        raise SystemExit("videos and cameras need PyAV: pip install 'gpunn[demo]'") from None
    try:
        with av.open(file, format=system) as container:
            for frame in container.decode(video=0):
                yield frame.to_image()
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise SystemExit(f"{file}: no picture, video or camera that can be read: {error}") from None


def main() -> None:
    """Classify until the source ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("--model", type=Path, metavar="FILE", default=vision.default_model())
    parser.add_argument("--labels", type=Path, metavar="FILE", help="class names, one a line")
    parser.add_argument("--backend", choices=["auto", "webgpu", "cpu"], default="auto")
    parser.add_argument("--most", type=int, metavar="N", help="stop after so many frames")
    options = parser.parse_args()

    model = gpunn.load(options.model)
    classifier = vision.classifier(model, top=1, labels=options.labels)
    pixels = (classifier.photos.values(frame)[np.newaxis] for frame in frames(options.source))
    last = "\r" if sys.stdout.isatty() else "\n"
    done, times = 0, [time.perf_counter()]
    with classifier.model.compile(options.backend, gpunn.Preference.SUSTAINED_SPEED) as compiled:
        for done, result in enumerate(compiled.stream(itertools.islice(pixels, options.most)), 1):
            times = [*times[-30:], time.perf_counter()]
            rate = (len(times) - 1) / (times[-1] - times[0])
            (answer,) = classifier.answers(result)
            print(f"frame {done:<6} {rate:7.1f}/s  {answer.said:<60}", end=last, flush=True)
    print(f"\n{vision.known_classes(model, classifier.labels)}\n{classifier.wanted.described()}")
    print(f"{done} frames on {compiled.device}")


if __name__ == "__main__":
    run(main)
