"""A device keeps the pipelines that are in use, and of the others the last ones."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from gpunn.backends.webgpu import pipelines
from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.pipelines import Pipelines
from gpunn.backends.webgpu.shader import ShaderKey
from gpunn.model import Model
from gpunn.types import float32


class Pipeline:
    """Something that can be referred to weakly, as a pipeline."""


def key_of(body: str) -> ShaderKey:
    """Return a key of a shader without operands."""
    return ShaderKey(
        body=body,
        workgroup=(1, 1, 1),
        bindings=(),
        params=(),
        constants=(),
        functions=(),
        libraries=(),
        lanes=1,
        accumulator=None,
    )


def test_the_last_ones_stay_and_those_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "MOST", 2)
    found = Pipelines()
    used, *others = map(key_of, "abcd")
    held = Pipeline()
    found.add(used, held)
    for key in others:
        found.add(key, Pipeline())
    assert {*found} == {used, *others}, "nothing is freed before the end of a compilation"
    assert found.get(others[0]) is not None
    found.trim()
    gc.collect()
    assert {*found} == {used, others[0], others[2]}, "the first one was asked for again"
    assert others[1] not in found and found.get(others[1]) is None
    assert found.get(used) is held and found.made == 4


def test_compilations_share_pipelines_as_long_as_one_uses_them(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelines, "MOST", 1)
    monkeypatch.setattr(open_device(None, low_power=False), "_pipelines", Pipelines())
    x = np.linspace(0, 1, 5, dtype=np.float32)

    def made(op: str) -> int:
        with model_of(op).compile(gpu) as compiled:
            np.testing.assert_allclose(compiled(x), getattr(np, op)(x), rtol=1e-5)
            count = compiled.stats.pipelines
        del compiled
        gc.collect()
        return count

    with model_of("exp").compile(gpu) as first:
        assert [made(op) for op in ("tanh", "exp", "sin", "exp")] == [1, 0, 1, 0]
        np.testing.assert_allclose(first(x), np.exp(x), rtol=1e-5)
    del first
    gc.collect()
    assert [made(op) for op in ("exp", "cos", "exp")] == [0, 1, 1], "nobody used it when cos came"


def model_of(op: str) -> Model:
    """Return a model of one operation on five numbers."""
    model = Model(op)
    model.output(*model.add(op, [model.input("x", float32(5))]))
    return model
