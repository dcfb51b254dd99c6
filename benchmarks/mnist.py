"""A network for MNIST's digits trained from random weights, beside PyTorch: python -m benchmarks.mnist FOLDER

FOLDER holds images and labels as idx files, t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz: 9,000 of
them for training, 1,000 for the accuracy. gpunn and PyTorch (extra: training) begin with the same weights and
take the same mini-batches of 32 in the same order. loss apart: the most that the losses of a step differ by.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import gpunn
from benchmarks.command import command
from gpunn.bench.conditions import Conditions
from gpunn.cli.grid import ABSENT, Grid, number, report
from gpunn.model import Model
from gpunn.types import Array, float32

SHAPES = ((8, 3, 3, 1), (8,), (16, 3, 3, 8), (16,), (10, 784), (10,))
OPTIMIZERS = {"SGD, momentum": gpunn.SGD(0.05, momentum=0.9), "Adam": gpunn.Adam(0.001)}
EARLY = 100  # steps whose losses are compared one by one
TESTED = 1000
BATCH = 32
HEADS = (
    "optimiser",
    "backend",
    "loss apart",
    "last losses",
    "accuracy",
    "torch: last losses",
    "torch: accuracy",
)


def digits(folder: Path) -> tuple[Array, Array]:
    """Return the images [N, 28, 28, 1], from 0 to 1, and the digits [N]."""
    images, labels = (
        np.frombuffer(gzip.decompress((folder / f"t10k-{name}-ubyte.gz").read_bytes())[skip:], np.uint8)
        for name, skip in (("images-idx3", 16), ("labels-idx1", 8))
    )
    return (images.reshape(-1, 28, 28, 1) / np.float32(255)).astype(np.float32), labels.astype(np.int64)


def initial(seed: int) -> list[Array]:
    """Return random weights, by He's rule, and biases of 0."""
    random = np.random.default_rng(seed)
    return [
        (random.standard_normal(s) * np.sqrt(2 / np.prod(s[1:])) if len(s) > 1 else np.zeros(s)).astype(
            np.float32
        )
        for s in SHAPES
    ]


def network(values: Sequence[Array]) -> tuple[Model, list[str]]:
    """Return two convolutions with pools and a fully connected layer, and the names of the weights."""
    model = Model("digits")
    weights = [model.constant(f"weight {k}", value) for k, value in enumerate(values)]
    y = model.input("image", float32(BATCH, 28, 28, 1))
    for filter, bias in (weights[:2], weights[2:4]):
        (y,) = model.add("conv2d", [y, filter, bias], {"padding": "same", "activation": "relu"})
        (y,) = model.add("max_pool2d", [y], {"size": (2, 2), "stride": (2, 2)})
    (y,) = model.add("fully_connected", [y, *weights[4:]])
    model.output(*model.add("softmax", [y]))
    return model, [w.name for w in weights]


def batches(images: Array, labels: Array, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield whole mini-batches of an epoch, in an order of its own."""
    order = np.random.default_rng(seed).permutation(len(images))
    for begin in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[begin : begin + BATCH]
        yield images[chosen], labels[chosen]


def ours(data: tuple[Array, Array], optimizer: Any, epochs: int, backend: str) -> tuple[list[float], float]:
    """Train; return the losses, and the share of the tested digits that are right."""
    images, labels = data
    model, names = network(initial(0))
    losses: list[float] = []
    with gpunn.Trainer(
        model, loss="cross_entropy", optimizer=optimizer, trainable=names, backend=backend
    ) as trainer:
        for epoch in range(epochs):
            steps = batches(images[TESTED:], labels[TESTED:], epoch)
            losses += [p.loss for p in trainer.fit([*steps])]
        trained = trainer.model()
    with trained.reshaped({"image": (TESTED, 28, 28, 1)}).compile(backend) as compiled:
        found = compiled(images[:TESTED])
    return losses, float(np.mean(np.argmax(found, 1) == labels[:TESTED]))


def theirs(data: tuple[Array, Array], optimizer: Any, epochs: int) -> tuple[list[float], float]:
    """Do the same in PyTorch."""
    import torch

    torch.set_num_threads(1)
    images, labels = data
    w = [torch.tensor(value, requires_grad=True) for value in initial(0)]
    if isinstance(optimizer, gpunn.Adam):
        rule = torch.optim.Adam(w, optimizer.learning_rate)
    else:
        rule = torch.optim.SGD(w, optimizer.learning_rate, optimizer.momentum)

    def logits(images: Array) -> Any:
        y = torch.from_numpy(images).permute(0, 3, 1, 2)
        for filter, bias in (w[:2], w[2:4]):
            y = torch.nn.functional.conv2d(y, filter.permute(0, 3, 1, 2), bias, padding=1).relu()
            y = torch.nn.functional.max_pool2d(y, 2)
        return y.permute(0, 2, 3, 1).reshape(len(images), -1) @ w[4].T + w[5]

    losses: list[float] = []
    for epoch in range(epochs):
        for chosen, classes in batches(images[TESTED:], labels[TESTED:], epoch):
            rule.zero_grad()
            loss = torch.nn.functional.cross_entropy(logits(chosen), torch.from_numpy(classes))
            loss.backward()
            rule.step()
            losses.append(loss.item())
    with torch.no_grad():
        found = logits(images[:TESTED]).numpy()
    return losses, float(np.mean(np.argmax(found, 1) == labels[:TESTED]))


def line(name: str, data: tuple[Array, Array], epochs: int, backend: str) -> tuple[str, ...]:
    """Return the line of an optimiser."""
    losses, right = ours(data, OPTIMIZERS[name], epochs, backend)
    shown = [number(float(np.mean(losses[-EARLY:])), 4), f"{right:.1%}"]
    if not find_spec("torch"):
        return name, backend, ABSENT, *shown, ABSENT, ABSENT
    others, known = theirs(data, OPTIMIZERS[name], epochs)
    apart = np.abs(np.subtract(losses, others))[:EARLY].max()
    return name, backend, f"{apart:.1e}", *shown, number(float(np.mean(others[-EARLY:])), 4), f"{known:.1%}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with each optimiser and print."""
    parser = command("mnist", __doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--epochs", type=int, default=3, metavar="N")
    parser.add_argument("--backend", default="webgpu", choices=("webgpu", "cpu"))
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args(arguments)
    data = digits(options.folder)
    lines = tuple(line(name, data, options.epochs, options.backend) for name in OPTIMIZERS)
    notes = [f"loss apart: in the first {EARLY} steps; last losses: the mean of the last {EARLY}"]
    report(Conditions.now().described(), [Grid(HEADS, lines)], notes, markdown=options.markdown)


if __name__ == "__main__":
    main()
