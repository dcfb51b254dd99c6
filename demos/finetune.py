"""Fine-tune the packaged classifier on two classes of CIFAR-10 pictures that it has never seen.

    python demos/finetune.py --data cifar10_jpg_all.tar.gz [--classes cat dog] [--photos 100] [--epochs 10]

The archive holds CIFAR-10 as JPEG files (train_cifar10.py says more).  The pictures in test/ were held back
when the classifier was trained.  Some of each class teach a new last layer, and others ask it; the packaged
classifier answers the same questions with the better of its two scores.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path, PurePosixPath

import numpy as np
from pictures import open_archive, run
from PIL import Image

import gpunn
from gpunn import vision


def held_back(archive: Path, classes: list[str], count: int) -> dict[str, list[Image.Image]]:
    """Return the first pictures of some classes in test/, by class."""
    found: dict[str, list[Image.Image]] = {name: [] for name in classes}
    with open_archive(archive) as files:
        for member in sorted(files.getmembers(), key=lambda member: member.name):
            path = PurePosixPath(member.name)
            part = path.parts[-3:-1]
            wanted = path.suffix == ".jpg" and part[:1] == ("test",) and part[1] in found
            if wanted and len(found[part[1]]) < count and (file := files.extractfile(member)):
                found[part[1]].append(Image.open(io.BytesIO(file.read())).convert("RGB"))
    for name, pictures in found.items():
        if len(pictures) < count:
            raise SystemExit(f"{archive} has {len(pictures)} pictures test/{name}/*.jpg, {count} are needed")
    return found


def accuracy(model: gpunn.Model, asked: dict[str, list[Image.Image]], backend: str) -> float:
    """Return the share of pictures whose class has the best score, among the classes that are asked for."""
    classifier = vision.classifier(model, top=len(model.labels))
    right = []
    with classifier.model.compile(backend) as compiled:
        for name, pictures in asked.items():
            for picture in pictures:
                (answer,) = classifier.answers(compiled(classifier.photos.values(picture)[None]))
                best = next(guess.label for guess in answer.best if guess.label in asked)
                right.append(best == name)
    return float(np.mean(right))


def main() -> None:
    """Teach, ask, and write the new classifier."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="archive of JPEG pictures")
    parser.add_argument("--classes", nargs=2, default=["cat", "dog"], metavar="CLASS")
    parser.add_argument("--photos", type=int, default=100, help="of each class to teach it (default 100)")
    parser.add_argument("--asked", type=int, default=200, help="of each class to ask it (default 200)")
    parser.add_argument("--epochs", type=int, default=10, help="rounds over them (default 10)")
    parser.add_argument("--layers", choices=["last", "all"], default="last")
    parser.add_argument("--backend", choices=["auto", "webgpu", "cpu"], default="auto")
    parser.add_argument("--output", type=Path, default=Path("finetuned.tflite"))
    options = parser.parse_args()
    pictures = held_back(options.data, options.classes, options.photos + options.asked)
    taught = {name: some[: options.photos] for name, some in pictures.items()}
    asked = {name: some[options.photos :] for name, some in pictures.items()}
    model = gpunn.load(vision.default_model())
    found = gpunn.finetune(
        model, taught, epochs=options.epochs, layers=options.layers, backend=options.backend
    )
    for number, epoch in enumerate(found.epochs, 1):
        print(f"epoch {number}: loss {epoch.loss:.3f}, accuracy {epoch.accuracy:.1%} of {found.measured}")
    found.model.save(options.output)
    names = " or ".join(options.classes)
    print(f"{2 * options.asked} other pictures, {names}, on {found.device}:")
    print(f"  packaged classifier  {accuracy(model, asked, options.backend):.1%}")
    print(f"  after the training   {accuracy(gpunn.load(options.output), asked, options.backend):.1%}")
    print(f"wrote {options.output}; gpunn classify --model {options.output} PHOTO")


if __name__ == "__main__":
    run(main)
