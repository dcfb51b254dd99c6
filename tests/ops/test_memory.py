"""Memory for results on the host: it is used again, but never while an array or a view needs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from gpunn import Model
from gpunn.backends import cpu
from gpunn.errors import DeviceError
from gpunn.ops import OPS
from gpunn.ops.memory import BUFFER, LEAST_BYTES, MOST_TIMES, Memory, ShortBuffers, empty, scratch
from gpunn.types import Array, DType, Quantization, TensorType, float32

LARGE = (LEAST_BYTES // 4,)  # a shape of float32

VIEWS: dict[str, Callable[[Array], Array]] = {
    "reshape": lambda x: x.reshape(4, -1),
    "part": lambda x: x[3:7],
    "part of a part": lambda x: x.reshape(8, -1)[2:][1],
    "transposed": lambda x: x.reshape(8, -1).T,
    "as_strided": lambda x: as_strided(x, (3, 3), (4, 4)),
    "part of as_strided": lambda x: as_strided(x, (3, 3), (4, 4))[1:],
    "asarray": lambda x: np.asarray(x[1:], order="C"),
    "frombuffer": lambda x: np.frombuffer(x, np.uint8),
    "memoryview": lambda x: np.asarray(memoryview(x)),
}


def address(x: Array) -> int:
    return int(x.ctypes.data)


def test_memory_is_used_again_when_nothing_refers_to_it() -> None:
    memory = Memory()
    first = memory.empty(LARGE, np.float32)
    place = address(first)
    second = memory.empty(LARGE, np.float32)
    assert not np.may_share_memory(first, second)
    del first
    assert address(memory.empty((LARGE[0] // 2, 1), np.float64)) == place


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_keeps_its_memory(view: str) -> None:
    memory = Memory()
    kept = VIEWS[view](memory.empty(LARGE, np.float32))
    assert not np.may_share_memory(kept, memory.empty(LARGE, np.float32))
    place, held = address(kept), memory.nbytes
    del kept
    again = [memory.empty(LARGE, np.float32) for _ in range(2)]
    assert memory.nbytes == held
    assert any(0 <= place - address(x) < LEAST_BYTES for x in again)


def test_scratch_of_a_name_lies_where_it_lay_until_it_must_grow() -> None:
    memory = Memory()
    with memory.in_use():
        first = scratch("a", LARGE, np.dtype(np.float32))
        other = scratch("b", LARGE, np.dtype(np.float32))
        assert not np.may_share_memory(first, other)
        again = scratch("a", (LARGE[0] // 4, 2), np.dtype(np.float64))
        assert again.shape == (LARGE[0] // 4, 2) and address(again) == address(first)
        held = memory.nbytes
        assert scratch("a", (LARGE[0] * 2,), np.dtype(np.float32)).size == LARGE[0] * 2
        assert memory.nbytes == held + LEAST_BYTES
    alone = [scratch("a", (3,), np.dtype(np.int8)) for _ in range(2)]
    assert not np.may_share_memory(*alone)


def test_small_arrays_do_not_hold_large_buffers() -> None:
    memory = Memory()
    memory.empty((LARGE[0] * MOST_TIMES * 2,), np.float32)
    held = memory.nbytes
    small = memory.empty(LARGE, np.float32)
    assert memory.nbytes == held + small.nbytes
    memory.empty((1,), np.float32)
    assert memory.nbytes == held + small.nbytes


def test_the_smallest_buffer_that_is_large_enough_is_taken() -> None:
    memory = Memory()
    arrays = [memory.empty((LARGE[0] * times,), np.float32) for times in (3, 1, 2)]
    places = [address(x) for x in arrays]
    arrays.clear()
    assert address(memory.empty((LARGE[0] * 2 - 5,), np.float32)) == places[2]


def test_of_buffers_of_one_size_the_last_one_to_be_free_is_taken() -> None:
    memory = Memory()
    arrays = [memory.empty(LARGE, np.float32) for _ in range(3)]
    places = [address(x) for x in arrays]
    for k in (1, 2, 0):
        arrays[k] = np.empty(0, np.float32)
    assert [address(x) for x in [memory.empty(LARGE, np.float32) for _ in range(3)]] == [
        places[k] for k in (0, 2, 1)
    ]


def test_only_a_context_that_uses_memory_gets_it() -> None:
    memory = Memory()
    empty(LARGE, np.float32)
    assert memory.nbytes == 0
    with memory.in_use():
        empty(LARGE, np.float32)
    assert memory.nbytes == LEAST_BYTES
    empty((2 * LARGE[0],), np.float32)
    assert memory.nbytes == LEAST_BYTES


def network() -> Model:
    """Return convolutions with a branch, a view and a sum, all of large tensors."""
    rng = np.random.default_rng(0)
    model = Model("branches")
    x = model.input("x", float32(1, 40, 40, 16))
    weights = [rng.standard_normal((16, 1, 1, 16)).astype(np.float32) for _ in range(3)]
    filters = [model.constant(f"w{k}", value) for k, value in enumerate(weights)]
    (first,) = model.add("conv2d", [x, filters[0]], {"activation": "relu6"})
    (second,) = model.add("conv2d", [first, filters[1]])
    (third,) = model.add("conv2d", [second, filters[2]], {"activation": "relu"})
    (flat,) = model.add("reshape", [second], {"shape": (1, 1600, 16)})
    (total,) = model.add("add", [first, third])
    model.output(flat, total)
    return model


def test_runs_give_equal_results_and_share_no_memory() -> None:
    x = [np.random.default_rng(seed).standard_normal((1, 40, 40, 16)).astype(np.float32) for seed in (1, 2)]
    with network().compile(backend="cpu") as fresh:
        expected = [np.array(y) for y in fresh(x[0])]
    with network().compile(backend="cpu") as compiled:
        first = compiled(x[0])
        second = compiled(x[1])
        third = compiled(x[0])
    for one, other, again, wanted in zip(first, second, third, expected, strict=True):
        np.testing.assert_array_equal(one, wanted)
        np.testing.assert_array_equal(again, wanted)
        assert not np.array_equal(one, other)
        assert not np.may_share_memory(one, other)


def test_later_runs_need_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memories: list[Memory] = []

    def made() -> Memory:
        memories.append(Memory())
        return memories[-1]

    monkeypatch.setattr("gpunn.backends.cpu.Memory", made)
    x = np.ones((1, 40, 40, 16), np.float32)
    with network().compile(backend="cpu") as compiled:
        compiled(x)
        held = [memory.nbytes for memory in memories]
        assert sum(held) > 0
        for _ in range(3):
            compiled(x)
        assert [memory.nbytes for memory in memories] == held


def test_numpy_has_its_buffers_again_after_short_ones() -> None:
    before = np.getbufsize()
    with ShortBuffers():
        assert np.getbufsize() == BUFFER < before
    assert np.getbufsize() == before


@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_runs_on_integers_have_short_buffers(
    integers: bool, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen, usual = np.getbufsize(), [], cpu.run_steps

    def run_steps(*given: Any) -> None:
        seen.append(np.getbufsize())
        if fails:
            raise DeviceError("it fails")
        usual(*given)

    monkeypatch.setattr(cpu, "run_steps", run_steps)
    type = TensorType(DType.INT8, (2, 3), Quantization((0.1,), (3,))) if integers else float32(2, 3)
    model = Model("relu")
    model.output(*model.add("relu", [model.input("x", type)]))
    with model.compile("cpu") as compiled, pytest.raises(DeviceError) if fails else nullcontext():
        compiled(np.ones((2, 3), type.dtype.numpy))
    assert seen == [BUFFER if integers else before]
    assert np.getbufsize() == before


def test_an_op_that_takes_activations_gives_an_array_of_its_own() -> None:
    x, filter = np.ones((1, 1, 1, 4), np.float32), np.eye(4, dtype=np.float32)
    wide = {"add", "sub", "mul", "div"}
    calls: dict[str, tuple[list[Array], dict[str, object]]] = {
        "conv2d": ([x, filter.reshape(4, 1, 1, 4)], {}),
        "depthwise_conv2d": ([x, np.ones((1, 1, 1, 4), np.float32)], {}),
        "transpose_conv2d": ([x, filter.reshape(4, 1, 1, 4)], {"size": (1, 1)}),
        "conv3d": ([x[None], filter.reshape(1, 1, 1, 4, 4)], {}),
        "transpose_conv3d": ([x[None], filter.reshape(1, 1, 1, 4, 4)], {"size": (1, 1, 1)}),
        "fully_connected": ([x, filter], {}),
        "concat": ([x], {"axis": 0}),
        **{name: ([x, x], {}) for name in wide},
        **{name: ([x], {"size": (1, 1)}) for name in ("average_pool2d", "max_pool2d", "l2_pool2d")},
    }
    assert {name for name, op in OPS.items() if op.fusible} == calls.keys()
    for name, (inputs, attrs) in calls.items():
        result = OPS[name].reference(*inputs, **attrs)
        assert not any(np.may_share_memory(result, operand) for operand in inputs), name


def test_scratch_of_a_kind_is_one_array_as_long_as_its_memory_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunn.ops.memory.MOST_VIEWS", 2)
    kind = np.dtype(np.float32)
    with Memory().in_use():
        first = scratch("a", (8, 4), kind)
        assert scratch("a", (8, 4), kind) is first
        assert scratch("a", (4, 8), kind) is not first
        assert scratch("a", (2, 4), kind).ctypes.data == first.ctypes.data  # the third: others are forgotten
        assert scratch("a", (8, 4), kind) is not first
        larger = scratch("a", LARGE, kind)
        assert scratch("a", (8, 4), kind).ctypes.data == larger.ctypes.data
