"""Random graphs whose operations are joined, appended, prepended or computed beside others: the same bits."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.compilation.base import Compilation
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import Array, float32
from tests.planning.appending import add, as_on_a_gpu, in_bundles, pointwise, pooled, whole

CHANNELS = (4, 6, 8)


class Drawn:
    """A graph of random operations on small images, whose results are whole numbers."""

    def __init__(self, seed: int) -> None:
        self.random, self.model = random.Random(seed), Model(f"drawn {seed}")
        self.samples = 1 + seed % 3 // 2
        self.tensors = [self._input("x"), self._input("y")]
        state = self.model.variable("state", float32(self.samples, 5, 4, self.random.choice(CHANNELS)))
        self.tensors.append(state)
        for _ in range(self.random.randint(6, 16)):
            x = self.random.choice((*self.tensors[-6:], *self.tensors[-1:] * 6))
            self.random.choice(KINDS)(self, x)
        made = self.tensors[3:] or [add(self.model, "neg", state)]
        self.model.output(*dict.fromkeys((made[-1], *self.random.sample(made, min(2, len(made))))))
        self.model.update(state, self.random.choice([t for t in made if t.type == state.type] or [state]))

    def _input(self, name: str) -> Operand:
        return self.model.input(name, float32(self.samples, 5, 4, self.random.choice(CHANNELS)))

    def _put(self, op: str, *inputs: Operand, **attrs: Any) -> None:
        self.tensors.append(add(self.model, op, *inputs, **attrs))

    def _alike(self, x: Operand) -> Operand:
        return self.random.choice([t for t in self.tensors if t.type == x.type])

    def _product(self, x: Operand) -> None:
        y = pointwise(self.model, x, self.random.choice(CHANNELS))
        self.tensors.append(add(self.model, "clamp", y, *(self._number(n) for n in (-20, 20))))

    def _number(self, value: float) -> Operand:
        return self.model.constant("number", np.full((1,), value, np.float32))

    def _pool(self, x: Operand) -> None:
        self.tensors.append(pooled(self.model, x, x.type.shape[3]))

    def _unary(self, x: Operand) -> None:
        self._put(self.random.choice(("abs", "neg", "relu")), x)

    def _binary(self, x: Operand) -> None:
        self._put(self.random.choice(("add", "sub", "maximum", "minimum")), x, self._alike(x))

    def _select(self, x: Operand) -> None:
        less = add(self.model, "less", x, self._alike(x))
        self._put("select", less, self._alike(x), self._alike(x))

    def _residual(self, x: Operand) -> None:
        """Join x with a tensor of fewer channels, or with itself."""
        channels = x.type.shape[3]
        other = self.random.choice([t for t in self.tensors if t.type.shape[3] <= channels])
        more = channels - other.type.shape[3]
        before = self.random.choice((0, more, self.random.randint(0, more)))
        paddings = ((0, 0), (0, 0), (0, 0), (before, more - before))
        value = self.random.choice((0, 3))
        longer = add(self.model, "pad", other, paddings=paddings, value=value) if more else other
        self._put(self.random.choice(("add", "sub", "maximum")), *self.random.sample((x, longer), 2))
        if self.random.random() < 0.2:
            self.tensors.append(longer)

    def _shifted(self, x: Operand) -> None:
        """Take the maxima of each channel from x; they may be those of a function of x."""
        seen = add(self.model, "abs", x) if self.random.random() < 0.5 else x
        most = add(self.model, "reduce_max", seen, axes=(1, 2), keep_dims=True)
        self._put("sub", x, most)

    def _mirrored(self, x: Operand) -> None:
        """Take the maxima around each pixel of x, or of -x, and of its mirror image behind a border."""
        seen = add(self.model, "neg", x) if self.random.random() < 0.5 else x
        border = ((0, 0), (1, 1), (1, 1), (0, 0))
        wider = add(self.model, "mirror_pad", seen, paddings=border, mode="reflect")
        self._put("max_pool2d", wider, size=(3, 3), stride=(1, 1), padding="valid")

    def _pieces(self, x: Operand) -> None:
        if x.type.shape[3] == 8:
            self.tensors += self.model.add("split", [x], {"axis": 3, "sizes": (4, 4)})

    def _concat(self, x: Operand) -> None:
        others = [t for t in self.tensors if t.type.shape[3] + x.type.shape[3] in CHANNELS]
        if others:
            self._put("concat", x, self.random.choice(others), axis=3)

    def _reshape(self, x: Operand) -> None:
        flat = add(self.model, "reshape", x, shape=(x.type.size,))
        self._put("reshape", flat, shape=x.type.shape)


_Kind = Callable[[Drawn, Operand], None]
KINDS: tuple[_Kind, ...] = (
    Drawn._product,
    Drawn._pool,
    Drawn._unary,
    Drawn._binary,
    Drawn._binary,
    Drawn._select,
    Drawn._residual,
    Drawn._residual,
    Drawn._shifted,
    Drawn._mirrored,
    Drawn._pieces,
    Drawn._concat,
    Drawn._reshape,
)


def answers(compiled: Compilation, inputs: list[Array]) -> list[Array]:
    """Return the results of two runs; the second one begins with another state."""
    found = compiled(*inputs), compiled(*inputs)
    return [y for run in found for y in (run if isinstance(run, tuple) else (run,))]


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(60))
def test_plans(seed: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Drawn(seed).model
    inputs = [whole(*i.type.shape, seed=seed) for i in model.inputs]
    if seed % 2:
        as_on_a_gpu(monkeypatch)
    if seed % 4 == 3:  # with the kernels of one, and several in a dispatch
        in_bundles(monkeypatch)
        for name, least in (("LEAST", 2), ("LEAST_SAVED", 0)):
            monkeypatch.setattr(f"gpunn.backends.webgpu.bundles.{name}", least)
    with model.compile("webgpu") as compiled, model.compile("cpu") as cpu:
        for found, expected in zip(answers(compiled, inputs), answers(cpu, inputs), strict=True):
            np.testing.assert_array_equal(found, expected, strict=True)
