"""The files that are damaged, by format, and the ways to damage them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from gpunn.importers.coreml.messages import model_class
from tests.importers.coreml import mutation as coreml
from tests.importers.coreml.test_damage import classifier, network, pipeline
from tests.importers.damage import damaged_bytes
from tests.importers.tflite import mutation as tflite
from tests.resources import SHARED


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its files end with `suffix`; `sound` are files that can be read.

    contents changes what a file says, and leaves its encoding sound. It may raise
    any error for a change that the encoding cannot express.
    """

    suffix: str
    sound: Callable[[], Sequence[bytes]]
    contents: Callable[[bytes, Random], bytes]


@functools.cache
def _tflite_files() -> Sequence[bytes]:
    """One file for each operator, and files of several subgraphs."""
    return [tflite.seed(name) for name in (*tflite.WHOLE, *sorted(tflite.SEEDS))]


@functools.cache
def _coreml_files() -> Sequence[bytes]:
    """Files of every layer type, and pipelines; without ../shared only a few."""
    found = (
        coreml.seeds(Random(0)) if SHARED.exists() else [make() for make in (network, classifier, pipeline)]
    )
    return [message.SerializeToString() for message in found]


def _coreml_contents(data: bytes, random: Random) -> bytes:
    return coreml.damaged_contents(model_class().FromString(data), random)


FORMATS = (
    Format(".tflite", _tflite_files, tflite.damaged_contents),
    Format(".mlmodel", _coreml_files, _coreml_contents),
)


@functools.cache
def corpus_files(folder: Path, suffix: str) -> Sequence[bytes]:
    """Return the files of a corpus as they are when it is first asked for."""
    return [path.read_bytes() for path in sorted(folder.glob(f"*{suffix}"))]


def damaged(format: Format, random: Random, corpus: Path) -> bytes:
    """Return a damaged file of a format: of a sound one, or of one of the corpus."""
    kept = corpus_files(corpus, format.suffix)
    data = random.choice(kept if kept and random.randrange(3) == 0 else format.sound())
    if random.randrange(3) == 0:
        return damaged_bytes(data, random)
    try:
        return format.contents(data, random)
    except Exception:  # the encoding cannot express the change, or the file of the corpus cannot be read
        return damaged_bytes(data, random)
