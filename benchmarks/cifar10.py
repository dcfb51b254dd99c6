"""Our classifiers on CIFAR-10's 10,000 test pictures, on every backend: python -m benchmarks.cifar10 ARCHIVE

ARCHIVE holds CIFAR-10 as 32x32 JPEG files, test/<class>/*.jpg among them. gpunn.compare runs the float32
and the int8 model on each picture, one at a time, and counts what each backend gets right. Prints two
Markdown tables; takes some minutes a model where the GPU is Mesa's in software.
"""

from __future__ import annotations

import argparse
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import gpunn
from benchmarks.accuracy import BACKENDS, accuracy, agreement, circumstances
from gpunn.cli.compare import progress_bars
from gpunn.comparison import Comparison
from gpunn.vision import default_model


def test_pictures(archive: Path, folder: Path) -> Path:
    """Unpack the archive's folder `test` into `folder` and return it."""
    with tarfile.open(archive) as files:
        for member in files:
            content = files.extractfile(member) if member.isfile() else None
            if content and member.name.startswith("test/") and ".." not in member.name:
                target = folder / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
    return folder / "test"


def compared(model: Path, pictures: Path) -> Comparison:
    """Compare a model on all backends, with a progress bar."""
    with progress_bars(quiet=False) as told:
        return gpunn.compare(model, backends=BACKENDS, truth=pictures, progress=told)


def main(arguments: Sequence[str] | None = None) -> None:
    """Unpack, compare and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cifar10", description=__doc__.split(":")[0])
    parser.add_argument("archive", type=Path, metavar="ARCHIVE")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="gpunn-cifar10-") as folder:
        pictures = test_pictures(options.archive, Path(folder))
        found = [compared(default_model(quantised=q), pictures) for q in (False, True)]
    print(f"{circumstances(found)}\n\n{accuracy(found)}\n\n{agreement(found)}")


if __name__ == "__main__":
    main()
