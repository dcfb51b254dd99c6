"""The workgroup of a loop on the device: its width, and what need not run in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu.loop_shader import workgroup_bytes
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import float32
from tests.backends.test_loop_kernels import agree, looped
from tests.keras_loops import CELLS, Layer, layer_file
from tests.ops.harness import random


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.usefixtures("steps_stay")
def test_recurrent_layers_in_wide_workgroups(cell: str, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU has 64 invocations where software has 8; both sides here are lavapipe."""
    monkeypatch.setattr("gpunn.backends.webgpu.loop.NARROW", 64)
    layer = Layer(cell, 5, units=12, every=True)
    agree(gpunn.load(layer_file(layer)), [random(1, 1, 5, layer.features)], monkeypatch)


def test_slices_lie_where_their_source_lies(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """State takes pieces of other state, of which a copy on its way would destroy the rest."""

    def compute(body: Model, s: Sequence[Operand]) -> list[Operand]:
        first, second, third = body.add("split", [s[1]], {"sizes": (5, 5, 2), "axis": 0})
        (joined,) = body.add("concat", [second, first, third], {"axis": 0})
        (more,) = body.add("add", [joined, s[1]])
        (every_other,) = body.add("strided_slice", [more], {"begin": (1,), "end": (11,), "strides": (2,)})
        return [more, second, every_other]

    model = looped(3, [float32(12), float32(5), float32(5)], compute)
    x = np.arange(12, dtype=np.float32)
    found = agree(model, [x, x[:5], x[:5]], monkeypatch)
    expected, piece, others = x, x[:5], x[:5]
    for _ in range(3):
        piece = expected[5:10]
        expected = np.concatenate([expected[5:10], expected[:5], expected[10:]]) + expected
        others = expected[1:11:2]
    for y, z in zip(found, (expected, piece, others), strict=True):
        np.testing.assert_array_equal(y, z)


def test_memory_of_a_workgroup() -> None:
    """An element has up to 32 bytes; what has no known size counts as the 64 invocations of a workgroup."""
    text = """
    const k0_HANDED: u32 = 8u;
    const k0_GIVERS: u32 = select(1u, WX, SPLITS > 1u);
    var<workgroup> tiles: array<array<vec4<f32>, k0_GIVERS>, k0_HANDED>; // of all
    var<workgroup> partial: array<vec4<f32>, 3u * WX>;
    var<workgroup> sums: array<vec4<f32>, WX>;
    """
    assert workgroup_bytes(text) == 32 * (8 * 64 + 3 * 64 + 64)


@pytest.mark.parametrize("length", [256, 1500])
def test_sorts_in_many_rounds(length: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """lavapipe ends an invocation that has gone round too often, and then the rest of a row is not sorted."""
    signs = np.where(np.arange(length) % 2, -1, 1).astype(np.float32)

    def body(model: Model, state: Sequence[Operand]) -> Sequence[Operand]:
        values, _ = model.add("top_k", [state[1]], {"k": length})
        return model.add("mul", [values, model.constant("signs", signs)])

    numbers = 1 + np.random.default_rng(0).permutation(length).astype(np.float32)
    agree(looped(40, [float32(length)], body), [numbers], monkeypatch)
