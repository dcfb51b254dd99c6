"""A training step of MobileNet v1 beside PyTorch on one thread: python -m benchmarks.training

Both compute the loss of a mini-batch, all gradients, and new weights by gradient descent; inputs and targets
are in host memory. They take turns, step by step, in one process. Times are CPU times of all threads, medians
in ms; time / torch: the median of the ratios within the turns. Without PyTorch (extra: training) gpunn runs
alone. variables MB: weights, and what they were before the step. arena MB: activations and gradients; least
MB: what these take at least in this order.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

import gpunn
from benchmarks.command import command
from gpunn.bench.conditions import Conditions, load, load_text
from gpunn.bench.result import quotient
from gpunn.cli.grid import ABSENT, Grid, number, report
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.training.step import Loss, step_graph, weights_of
from gpunn.types import Array, float32

CLASSES = 1000
BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
HEADS = (
    *("mini-batch", "torch CPU ms", "webgpu CPU ms", "webgpu / torch", "variables MB", "arena MB"),
    *("least MB", "dispatches"),
)
RATE = 0.01
Step = Callable[[], object]


def mobilenet(batch: int, size: int) -> tuple[Model, list[Operand]]:
    """Return MobileNet v1 with random weights, for images [batch, size, size, 3], and its weights."""
    model, weights, random = Model("MobileNet v1"), list[Operand](), np.random.default_rng(0)

    def constants(*shape: int, terms: int) -> list[Operand]:
        filter = random.standard_normal(shape) * np.sqrt(2 / terms)
        bias = np.zeros(shape[-1] if shape[0] == 1 else shape[0])
        values = (v.astype(np.float32) for v in (filter, bias))
        made = [model.constant(f"weight {len(weights) + k}", value) for k, value in enumerate(values)]
        weights.extend(made)
        return made

    def layer(op: str, x: Operand, shape: tuple[int, ...], stride: int) -> Operand:
        terms = int(np.prod(shape[1:3])) * (shape[3] if op == "conv2d" else 1)
        attrs = {"stride": (stride, stride), "padding": "same", "activation": "relu6"}
        return model.add(op, [x, *constants(*shape, terms=terms)], attrs)[0]

    y = layer("conv2d", model.input("image", float32(batch, size, size, 3)), (32, 3, 3, 3), 2)
    for channels, stride in BLOCKS:
        depth = y.type.shape[3]
        y = layer("depthwise_conv2d", y, (1, 3, 3, depth), stride)
        y = layer("conv2d", y, (channels, 1, 1, depth), 1)
    (y,) = model.add("average_pool2d", [y], {"size": y.type.shape[1:3]})
    depth = y.type.shape[3]
    (y,) = model.add("fully_connected", [y, *constants(CLASSES, depth, terms=depth)])
    model.output(*model.add("softmax", [y]))
    return model, weights


def torch_step(images: Array, classes: Array) -> Step:
    """Return a step of PyTorch on one thread, with images in the order of memory that suits it best."""
    import torch

    torch.set_num_threads(1)
    layers: list[Any] = [torch.nn.Conv2d(3, 32, 3, 2, 1), torch.nn.ReLU6()]
    depth = 32
    for channels, stride in BLOCKS:
        layers += [torch.nn.Conv2d(depth, depth, 3, stride, 1, groups=depth), torch.nn.ReLU6()]
        layers += [torch.nn.Conv2d(depth, channels, 1), torch.nn.ReLU6()]
        depth = channels
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(depth, CLASSES)]
    network = torch.nn.Sequential(*layers).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), RATE)
    x = torch.from_numpy(images).permute(0, 3, 1, 2)
    target = torch.from_numpy(classes)

    def step() -> object:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(x), target)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def cpu_seconds(step: Step) -> float:
    """Return the CPU time of a step, of all threads."""
    start = time.process_time()
    step()
    return time.process_time() - start


def measure(batch: int, size: int, runs: int, device: str | None) -> tuple[str, ...]:
    """Return the line of a mini-batch."""
    random = np.random.default_rng(1)
    images = random.standard_normal((batch, size, size, 3)).astype(np.float32)
    classes = random.integers(0, CLASSES, batch)
    model, weights = mobilenet(batch, size)
    loss = Loss("cross_entropy", (len(model.operations) - 1, 0), -1)
    graph = Model.of(step_graph(model, weights_of(model, weights), loss, gpunn.SGD(RATE)))
    target = np.eye(CLASSES, dtype=np.float32)[classes]
    times: dict[str, list[float]] = {}
    with graph.compile("webgpu", device=device) as compiled:
        steps: dict[str, Step] = {"webgpu": lambda: compiled(images, target, np.float32(RATE))}
        if find_spec("torch"):
            steps["torch"] = torch_step(images, classes)
        for step in (*steps.values(), *steps.values()):
            step()
        for _ in range(runs):
            for name, step in steps.items():
                times.setdefault(name, []).append(cpu_seconds(step))
        stats = compiled.stats
    known = "torch" in times
    return (
        f"{batch} x {size} x {size}",
        number(1e3 * statistics.median(times["torch"]), 0) if known else ABSENT,
        number(1e3 * statistics.median(times["webgpu"]), 0),
        number(quotient(times["webgpu"], times["torch"]), 1) if known else ABSENT,
        *(number(n / 1e6, 0) for n in (stats.state_bytes, stats.arena_bytes, stats.peak_live_bytes)),
        str(stats.dispatches // stats.runs),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each mini-batch and print."""
    parser = command("training", __doc__)
    parser.add_argument("--batch", nargs="+", type=int, default=[8], metavar="N")
    parser.add_argument("--size", type=int, default=224, metavar="N", help="height and width of the images")
    parser.add_argument("--runs", type=int, default=7, metavar="N", help="steps of each, in turn")
    parser.add_argument("--device", metavar="NAME", help="part of the adapter's name")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args(arguments)
    described = Conditions.now().described()
    lines = tuple(measure(batch, options.size, options.runs, options.device) for batch in options.batch)
    facts = {**described, "load after": load_text(load())}
    report(facts, [Grid(HEADS, lines)], markdown=options.markdown)


if __name__ == "__main__":
    main()
