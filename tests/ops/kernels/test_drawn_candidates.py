"""Every way to compute products and convolutions that a GPU is offered, for calls drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from gpunn import compare
from gpunn.backends.webgpu.device import open_device
from gpunn.kernel import Candidate, Kernel
from gpunn.model import Model
from gpunn.types import Array, float32
from tests.ops.contraction.quantized_product import DTYPES, Case
from tests.ops.integer_checks import integer_model

Drawn = tuple[Model, Sequence[Array]]
OCCUPYING = (1, 1 << 8, 1 << 12, 1 << 15)  # invocations: few make large tiles come first, many divide sums
WINDOWS = ((1, 1), (3, 3), (2, 3), (5, 5))
DEPTHS, CHANNELS = (1, 3, 4, 8, 12, 16, 32, 64), (1, 4, 8, 13, 32, 64, 70, 130)


def numbers(rng: np.random.Generator, *shape: int) -> Array:
    return rng.uniform(-1, 1, shape).astype(np.float32)


def convolution(rng: np.random.Generator) -> Drawn:
    model, x, filter, attrs = Model("conv2d"), *window(rng)
    operands = [model.input("x", float32(*x)), model.constant("w", numbers(rng, *filter))]
    bias = model.constant("b", numbers(rng, filter[0])) if rng.integers(2) else None
    activation = (None, "relu", "relu6", "tanh")[rng.integers(4)]
    model.output(*model.add("conv2d", [*operands, bias], {**attrs, "activation": activation}))
    return model, [numbers(rng, *x)]


def quantized_convolution(rng: np.random.Generator) -> Drawn:
    x, filter, attrs = window(rng)
    return quantized("conv2d", x, filter, {**attrs, "activation": (None, "relu6")[rng.integers(2)]}, rng)


def window(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]:
    """Draw shapes of an input and of a filter, and how the window lies."""
    depth, channels = (int(rng.choice(some)) for some in (DEPTHS, CHANNELS))
    batch, height, width = (int(rng.integers(*ends)) for ends in ((1, 4), (5, 20), (5, 20)))
    attrs = {
        "stride": (1, 1) if rng.integers(2) else (int(rng.integers(1, 3)), 2),
        "padding": ("same", "valid")[rng.integers(2)],
    }
    return (batch, height, width, depth), (channels, *WINDOWS[rng.integers(len(WINDOWS))], depth), attrs


def rows(rng: np.random.Generator) -> Drawn:
    """Rows times a filter that is a constant, or computed."""
    count, depth, channels = map(int, rng.integers(1, 150, 3))
    model, filter = Model("fully_connected"), numbers(rng, channels, depth)
    x, constant = model.input("x", float32(count, depth)), bool(rng.integers(2))
    w = model.constant("w", filter) if constant else model.input("w", float32(*filter.shape))
    bias = model.constant("b", numbers(rng, channels))
    model.output(*model.add("fully_connected", [x, w, bias], {"activation": "relu"}))
    return model, [numbers(rng, count, depth), *([] if constant else [filter])]


def quantized_rows(rng: np.random.Generator) -> Drawn:
    count, depth, channels = map(int, rng.integers(1, 130, 3))
    depth *= 4 if rng.integers(2) else 1
    return quantized("fully_connected", (count, depth), (channels, depth), {}, rng)


def quantized(
    op: str, x: tuple[int, ...], filter: tuple[int, ...], attrs: dict[str, object], rng: np.random.Generator
) -> Drawn:
    kind, seed, bias, extreme = rng.choice([*DTYPES]), int(rng.integers(1 << 20)), *rng.integers(2, size=2)
    case = Case(op, kind, x, filter, seed=seed, bias=bool(bias), extreme=bool(extreme))
    assert case.inputs[0] is not None
    return integer_model(op, case.inputs, case.types, attrs, case.output, (1, 2)), case.inputs[:1]


def stacks(rng: np.random.Generator) -> Drawn:
    """Two stacks of matrices, each as it is or transposed."""
    batch, height, depth, width = (int(rng.integers(1, most)) for most in (4, 100, 100, 100))
    first, second = map(bool, rng.integers(2, size=2))
    a = numbers(rng, batch, *((depth, height) if first else (height, depth)))
    b = numbers(rng, batch, *((width, depth) if second else (depth, width)))
    model = Model("batch_matmul")
    operands = [model.input(name, float32(*v.shape)) for name, v in (("a", a), ("b", b))]
    model.output(*model.add("batch_matmul", operands, {"adj_a": first, "adj_b": second}))
    return model, [a, b]


@dataclass
class Way:
    """Takes the candidate at `place` for lowering; `offered`: how many there were, `reason`: what it says."""

    place: int = 0
    offered: int = 0
    reason: str = ""

    def choose(self, candidates: Iterator[Candidate], *_: object) -> Sequence[Kernel]:
        found = [*candidates]
        self.offered, self.reason = len(found), found[self.place].reason
        return found[self.place].kernels


DRAWS = (convolution, quantized_convolution, rows, quantized_rows, stacks)


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(len(OCCUPYING)))
@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.__name__)
def test_every_way_of_a_gpu(
    draw: Callable[[np.random.Generator], Drawn], seed: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng((seed, DRAWS.index(draw)))
    device = open_device(None, False)
    hardware = replace(device.properties, software=False, parallel_invocations=OCCUPYING[seed])
    monkeypatch.setattr(device, "properties", hardware)
    way, (model, inputs) = Way(), draw(rng)
    monkeypatch.setattr("gpunn.backends.webgpu.lower.choose", way.choose)
    while way.place < max(1, way.offered):
        found = compare(model, [tuple(inputs)], backends=[gpu, "cpu"])
        assert found.ok, way.reason
        way.place += 1
