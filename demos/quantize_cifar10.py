"""Make the int8 model that ships with gpunn from the float32 one.

    python demos/quantize_cifar10.py --data cifar10_jpg_all.tar.gz

Post-training quantisation: the float32 model classifies some of CIFAR-10's training pictures, and the
smallest and the largest value of each tensor give its scale; weights and biases are rounded by
tflite_writer.py.  The test pictures choose nothing.  The same pictures give the same file on the same
machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path, PurePosixPath

from pictures import open_archive, run
from PIL import Image
from tflite_writer import ModelWriter, Scales, write_with_labels

import gpunn
from gpunn import vision

DESCRIPTION = "gpunn CIFAR-10 MobileNet-like classifier, int8, input [1,32,32,3]: bytes less 128"
BATCH = 100
Range = tuple[float, float]


def training_pictures(archive: Path, every: int) -> list[Image.Image]:
    """Yield each `every`-th picture of each class, by number."""
    found = []
    with open_archive(archive) as files:
        for member in files:
            path = PurePosixPath(member.name)
            taken = path.suffix == ".jpg" and path.parts[-3] == "train" and int(path.stem) % every == 0
            if taken and (file := files.extractfile(member)):
                found.append(Image.open(file).convert("RGB"))
    return found


def ranges(pictures: list[Image.Image]) -> dict[str, Range]:
    """Return the smallest and the largest value of every operation's result, by its name."""
    model = gpunn.load(vision.default_model())
    results = [operation.outputs[0] for operation in model.operations]
    model.output(*results[:-1])  # the last one is the model's output already
    batched = model.reshaped({model.inputs[0].name: (BATCH, *model.inputs[0].type.shape[1:])})
    wanted = vision.PhotoInput(batched.inputs[0].type, vision.MEAN, vision.STD)
    found: dict[str, Range] = {}
    with batched.compile("cpu") as compiled:
        for x in wanted.batches(wanted.values(picture) for picture in pictures):
            for operand, values in zip(batched.outputs, compiled(x), strict=True):
                low, high = found.get(operand.name, (0.0, 0.0))
                found[operand.name] = min(low, float(values.min())), max(high, float(values.max()))
    return found


def quantised(model: gpunn.Model, found: dict[str, Range]) -> bytes:
    """Return the model in int8, as a TFLite flatbuffer."""
    writer = ModelWriter(DESCRIPTION)
    source = model.inputs[0]
    numbers = {source.name: writer.input(source.name, source.type.shape, Scales.covering(-1, 1))}
    for operation in model.operations:
        name = operation.outputs[0].name
        x = [numbers[o.name] for o in operation.inputs if o is not None and o.value is None]
        constants = [o.value for o in operation.inputs if o is not None and o.value is not None]
        scales = Scales.covering(*found[name])
        if operation.op in ("conv2d", "depthwise_conv2d"):
            write = getattr(writer, operation.op)
            stride, activation = operation.attrs["stride"][0], operation.attrs["activation"] or "none"
            numbers[name] = write(*x, *constants, stride, activation, name, scales)
        elif operation.op == "softmax":
            numbers[name] = writer.softmax(*x, name)
        else:
            numbers[name] = getattr(writer, operation.op)(*x, *constants, name, scales)
    return writer.finish([numbers[model.outputs[0].name]])


def main() -> None:
    """Measure the ranges, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="archive of JPEG pictures")
    parser.add_argument("--every", type=int, default=25, help="which training pictures (default 25: 2,000)")
    parser.add_argument("--output", type=Path, default=Path("cifar10_mobilenet_int8.tflite"))
    options = parser.parse_args()
    pictures = training_pictures(options.data, options.every)
    model = gpunn.load(vision.default_model())
    write_with_labels(options.output, quantised(model, ranges(pictures)), model.labels)
    print(f"{len(pictures)} pictures gave the ranges, {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    run(main)
