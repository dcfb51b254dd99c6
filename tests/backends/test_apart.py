"""Tensors in several buffers, so that dispatches of hardware only read those that they do not write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import wgpu

import gpunn
from gpunn.backends.base import Stats
from gpunn.backends.webgpu import resources
from gpunn.backends.webgpu.apart import groups_apart
from gpunn.backends.webgpu.device import Device, open_device
from gpunn.backends.webgpu.pipelines import Pipelines
from gpunn.model import Model
from gpunn.planning.arenas import GROUPS
from gpunn.types import Array, float32
from tests.ops.harness import random

X = random(1, 2, 9, 8)


@pytest.fixture
def device(gpu: str, monkeypatch: pytest.MonkeyPatch) -> Device:
    """Return the device without pipelines, as hardware."""
    found = open_device(None, low_power=False)
    monkeypatch.setattr(found, "properties", replace(found.properties, software=False))
    monkeypatch.setattr(found, "_pipelines", Pipelines())
    return found


def writable(device: Device) -> dict[str, list[str]]:
    """Return for each body that has a pipeline which of the operands that it reads are bound writable."""
    return {
        key.body: [b.name for b in key.bindings if b.shared and not b.stored] for key in device._pipelines
    }


def selecting() -> Model:
    """Return a model whose last operation reads three tensors, each of which was computed of the others."""
    model = Model("selecting")
    x = model.input("x", float32(2, 9, 8))
    (y,) = model.add("softmax", [x], {"beta": 1.0, "axis": -1})
    (larger,) = model.add("greater", [x, y])
    model.output(y, larger, *model.add("select", [larger, x, y]))
    return model


def widening() -> Model:
    """Return a model whose two wide tensors are not alive together, but in different groups."""
    model = Model("widening")
    y = model.input("x", float32(9, 8))
    for number, width in enumerate((800, 8, 8, 800, 8)):
        weights = model.constant(f"w{number}", np.eye(width, y.type.shape[1], dtype=np.float32))
        (y,) = model.add("fully_connected", [y, weights])
    model.output(y)
    return model


def branching(count: int, rows: int) -> Model:
    """Return a model with products that read the same tensor, one after the other, and what joins them."""
    model = Model("branching")
    x = model.input("x", float32(rows, 64))
    (x,) = model.add("softmax", [x], {"beta": 1.0, "axis": -1})
    found = []
    for number in range(count):
        weights = model.constant(f"w{number}", random(number, 64, 64))
        found += model.add("fully_connected", [x, weights])
    model.output(*model.add("concat", found, {"axis": 0}), *found)
    return model


def agree(model: Model, x: Array) -> Stats:
    """Compare the device's results with the host's; return what the compilation has on the device."""
    with model.compile("cpu") as reference, model.compile("webgpu") as compiled:
        for found, expected in zip(compiled(x), reference(x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        return compiled.stats


def test_dispatches_read_other_buffers_than_they_write(device: Device) -> None:
    """Of three buffers none is left for the result of select."""
    agree(selecting(), X)
    assert writable(device) == {"normalize": [], "binary_flat": [], "select": ["c", "a", "b"]}


def test_software_and_programs_with_a_limit_have_one_buffer(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = selecting()
    apart = agree(model, X)
    with model.compile("webgpu", device_memory_limit=1 << 24) as compiled:
        assert compiled.stats.buffers < apart.buffers
    monkeypatch.setattr(device, "properties", replace(device.properties, software=True))
    assert agree(model, X).buffers < apart.buffers


def test_one_buffer_where_there_is_no_memory_for_more(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory for all tensors in one buffer is enough."""
    model, before = widening(), sum(device.memory.used().values())
    with model.compile("webgpu", device_memory_limit=1 << 24) as compiled:
        one, room = compiled.stats.buffers, sum(device.memory.used().values()) - before
    make, refused = device.wgpu.create_buffer, []

    def limited(*, size: int, usage: int) -> Any:
        if sum(device.memory.used().values()) - before + size > room:
            refused.append(size)
            raise wgpu.GPUOutOfMemoryError("no room")
        return make(size=size, usage=usage)

    monkeypatch.setattr(device.wgpu, "create_buffer", limited)
    assert agree(model, X[0]).buffers == one
    assert len(refused) == 1
    room -= 16
    with pytest.raises(gpunn.OutOfMemoryError, match="out of GPU memory"):
        model.compile("webgpu")
    assert sum(device.memory.used().values()) == before


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the groups of all tensors of what is compiled."""
    found: list[int] = []

    def kept(*arguments: Any) -> Sequence[int]:
        made = groups_apart(*arguments)
        found.extend(made)
        return made

    monkeypatch.setattr(resources, "groups_apart", kept)
    return found


@pytest.mark.parametrize(
    ("count", "rows", "parallel", "alone"),
    [(3, 99, 1 << 15, 2), (3, 1, 1 << 15, 0), (3, 99, 1, 0), (99, 99, 1 << 15, 64)],
)
def test_results_beside_others_have_buffers_of_their_own(
    count: int,
    rows: int,
    parallel: int,
    alone: int,
    device: Device,
    groups: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second and the third of three products need not wait.

    Small ones may be in a bundle, large ones gain little, and not every result of very many has a buffer.
    """
    monkeypatch.setattr(device, "properties", replace(device.properties, parallel_invocations=parallel))
    agree(branching(count, rows), random(1, rows, 64))
    assert [g for g in groups if g >= GROUPS] == [*range(GROUPS, GROUPS + alone)]


def test_results_of_a_chain_are_in_common_buffers(device: Device, groups: list[int]) -> None:
    agree(widening(), X[0])
    assert groups and max(groups) < GROUPS
