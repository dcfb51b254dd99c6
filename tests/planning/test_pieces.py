"""Parts of a tensor that operations read where they are, so that no split and no slice copies them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import DType, Quantization, Shape, TensorType, float32
from tests.ops.harness import as_software, limit_device, shares_rows
from tests.planning.appending import add
from tests.planning.joining import (
    PIECES,
    Reader,
    appended,
    clamped,
    concat,
    copied,
    gated,
    negated,
    normalised,
    of_another_shape,
    of_rows,
    pooled,
    prepended,
    product,
    read_by_several,
    squared,
    values,
)

Pieces = Callable[[Model, Operand], list[Operand]]


def halves(model: Model, x: Operand, axis: int = -1) -> list[Operand]:
    """Two parts of a tensor, of which the second one is larger if they are not equal."""
    extent = x.type.shape[axis]
    sizes = (extent // 2, extent - extent // 2)
    return [*model.add("split", [x], {"axis": axis, "sizes": sizes})]


@pytest.mark.sample(2)
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize(
    "reader",
    [
        negated,
        normalised,
        squared,
        of_another_shape,
        pooled,
        product,
        of_rows,
        prepended,
        appended,
        gated,
        read_by_several,
    ],
)
@pytest.mark.parametrize("shape", [(1, 4, 4, 16), (2, 3, 5, 10), (3, 7, 1, 6), (2, 1, 3, 2)], ids=str)
def test_readers_find_both_parts(gpu: str, shape: Shape, reader: Reader, computed: bool) -> None:
    model = Model("parts")
    x = model.input("x", float32(*shape))
    model.output(*(reader(model, part) for part in halves(model, clamped(model, x) if computed else x)))
    assert copied(model, values(model), PIECES) == 0


def test_fours_that_lie_apart_are_copied(gpu: str) -> None:
    """The product loads four elements of a row at once, and rows of nine elements do not begin with fours."""
    model = Model("parts")
    left, right = halves(model, clamped(model, model.input("x", float32(1, 2, 3, 9))))
    model.output(product(model, left), product(model, right))
    assert copied(model, values(model), PIECES) == 1


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_parts_along_any_axis(gpu: str, axis: int) -> None:
    model = Model("parts")
    x = clamped(model, model.input("x", float32(2, 3, 5, 7)))
    model.output(*(negated(model, part) for part in halves(model, x, axis)))
    assert copied(model, ops=PIECES) == 0


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_each_of_a_stack(gpu: str, axis: int) -> None:
    model = Model("stack")
    pieces = model.add("unstack", [model.input("x", float32(3, 4, 5))], {"axis": axis})
    model.output(*(negated(model, piece) for piece in pieces))
    assert copied(model, ops=PIECES) == 0


def test_heads_of_attention_are_read_where_they_are(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of computed matrices pack them first, or begin where they do."""
    as_software(monkeypatch)
    model = Model("heads")
    x = clamped(model, model.input("x", float32(3, 2, 64, 32)))
    q, k, v = model.add("unstack", [x], {"axis": 0})
    (scores,) = model.add("batch_matmul", [q, k], {"adj_b": True})
    model.output(*model.add("batch_matmul", [scores, v]))
    assert copied(model, values(model), ops=PIECES) == 0


def sliced(model: Model, x: Operand, *slices: slice) -> Operand:
    bounds = {
        "begin": tuple(s.start for s in slices),
        "end": tuple(s.stop for s in slices),
        "strides": tuple(s.step or 1 for s in slices),
    }
    return add(model, "strided_slice", x, **bounds)


ALL = slice(None)


@pytest.mark.parametrize(
    ("slices", "left"),
    [
        ((ALL, ALL, slice(2, 7)), 0),
        ((ALL, slice(1, 3), ALL), 0),
        ((slice(1, 2), ALL, ALL), 0),
        ((slice(1, 2), slice(2, 3), slice(1, 6)), 0),
        ((slice(0, 1), slice(1, 4), slice(1, 6)), 0),
        ((ALL, ALL, slice(3, 4)), 0),
        ((ALL, slice(0, 4, 2), ALL), 0),
        ((ALL, slice(0, 4, 3), ALL), 1),  # rows in rows
        ((ALL, slice(2, 3), slice(0, 1)), 0),
        ((slice(1, 2), slice(2, 3), slice(0, 8, 3)), 0),
        ((ALL, ALL, slice(None, None, -1)), 1),
        ((ALL, slice(1, 3), slice(1, 6)), 1),
    ],
    ids=str,
)
def test_slices_that_are_rows(gpu: str, slices: tuple[slice, ...], left: int) -> None:
    model = Model("slices")
    x = clamped(model, model.input("x", float32(2, 4, 8)))
    model.output(negated(model, sliced(model, x, *slices)))
    assert copied(model, ops=PIECES) == left


def in_one_another(model: Model, x: Operand) -> int:
    for part in halves(model, halves(model, x)[1]):
        model.output(negated(model, part))
    return 0


def an_element_of_a_column(model: Model, x: Operand) -> int:
    """The second element of a piece of single elements is not beside the first one."""
    column = add(model, "reshape", sliced(model, x, ALL, ALL, ALL, slice(1, 2)), shape=(-1,))
    model.output(negated(model, sliced(model, column, slice(5, 6))))
    return 0


def some_rows_of_a_part(model: Model, x: Operand) -> int:
    part = add(model, "reshape", halves(model, x)[1], shape=(-1, 4))
    model.output(negated(model, sliced(model, part, slice(3, 9), ALL)))
    model.output(negated(model, sliced(model, part, slice(5, 6), slice(1, 3))))
    return 0


def of_rows_of_another_tensor(model: Model, x: Operand) -> int:
    """The second axis of a part of the last one has rows of rows."""
    for part in halves(model, halves(model, x)[1], axis=2):
        model.output(negated(model, part))
    return 2


def through_a_view(model: Model, x: Operand) -> int:
    flat = add(model, "reshape", x, shape=(-1, 8))
    model.output(*(of_another_shape(model, part) for part in halves(model, flat)))
    return 0


def of_a_joined_tensor(model: Model, x: Operand) -> int:
    joined = concat(model, negated(model, x), clamped(model, x), axis=3)
    model.output(negated(model, joined), *(squared(model, part) for part in halves(model, joined)))
    return 0


def of_a_part_of_a_joined_tensor(model: Model, x: Operand) -> int:
    part = negated(model, x)
    model.output(concat(model, clamped(model, x), part, axis=3))
    model.output(*(squared(model, each) for each in halves(model, part)))
    return 0


def into_the_tensor_that_it_is_read_from(model: Model, x: Operand) -> int:
    left, right = halves(model, x)
    model.output(concat(model, x, negated(model, left), axis=3), negated(model, right))
    return 0


def an_output(model: Model, x: Operand) -> int:
    left, right = halves(model, x)
    model.output(left, add(model, "reshape", right, shape=(-1,)), negated(model, right))
    return 2


def unread(model: Model, x: Operand) -> int:
    model.output(negated(model, halves(model, x)[0]))
    return 0


def read_many_times(model: Model, x: Operand) -> int:
    """A reduction loads elements in loops, which would compute each place."""
    left, right = halves(model, x)
    model.output(add(model, "reduce_max", left, axes=(3,)), negated(model, right))
    return 1


@pytest.mark.parametrize(
    "build",
    [
        in_one_another,
        an_element_of_a_column,
        some_rows_of_a_part,
        of_rows_of_another_tensor,
        through_a_view,
        of_a_joined_tensor,
        of_a_part_of_a_joined_tensor,
        into_the_tensor_that_it_is_read_from,
        an_output,
        unread,
        read_many_times,
    ],
)
def test_what_is_copied(gpu: str, build: Callable[[Model, Operand], int]) -> None:
    model = Model("pieces")
    expected = build(model, clamped(model, model.input("x", float32(2, 3, 4, 8))))
    assert copied(model, ops=PIECES) == expected


def test_parts_of_variables_are_copied(gpu: str) -> None:
    """The next value may be stored before a part of the old one is read."""
    model = Model("state")
    state = model.variable("state", float32(2, 8), np.arange(16, dtype=np.float32).reshape(2, 8))
    left, right = halves(model, state)
    model.update(state, concat(model, negated(model, right), left, axis=1))
    model.output(squared(model, left))
    with model.compile("webgpu") as gpu_, model.compile("cpu") as cpu:
        for _ in range(3):
            np.testing.assert_array_equal(gpu_(), cpu())
        assert sum(len(p.kernels) for p in gpu_.placement if p.operation.op == "split") > 0


@pytest.mark.parametrize(("channels", "left"), [(8, 0), (6, 2)])
def test_elements_that_share_a_word_are_read_in_fours(gpu: str, channels: int, left: int) -> None:
    model, scale = Model("words"), Quantization((0.1,), (3,))
    x = model.input("x", TensorType(DType.INT8, (1, 3, 3, channels), scale))
    model.output(*(clamped(model, part) for part in halves(model, clamped(model, x))))
    assert copied(model, ops=PIECES) == left


@pytest.mark.parametrize(
    ("channels", "size", "left"), [(6, 3, 2), (12, 3, 2), (16, 3, 0), (64, 1, 0), (64, 3, 0)]
)
def test_quantised_products_find_parts(
    gpu: str, channels: int, size: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of shared rows load words of four elements, also where they copy first what windows see."""
    as_software(monkeypatch)
    model, rng = Model("bytes"), np.random.default_rng(channels)
    x = model.input("x", TensorType(DType.INT8, (1, 15, 16, channels), Quantization((0.1,), (3,))))
    for part in halves(model, clamped(model, x)):
        shape = (32, size, size, channels // 2)
        filter = rng.integers(-127, 128, shape).astype(np.int8)
        bias = rng.integers(-99, 99, 32).astype(np.int32)
        operands = [
            model.constant("w", filter, TensorType(DType.INT8, shape, Quantization((0.02,), (0,)))),
            model.constant("b", bias, TensorType(DType.INT32, (32,), Quantization((0.002,), (0,)))),
        ]
        result = [Quantization((0.3,), (-5,))]
        model.output(*model.add("conv2d", [part, *operands], {"padding": "same"}, quantization=result))
    assert copied(model, ops=PIECES) == (left if shares_rows(4, 8) else 2)


def test_parts_of_a_tensor_in_several_bindings_are_copied(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = open_device(None, False).properties.limits
    limit_device(monkeypatch, limits={**limits, "max-storage-buffer-binding-size": 4096})
    model = Model("large")
    x = clamped(model, model.input("x", float32(2, 1000)))
    model.output(*(negated(model, part) for part in halves(model, x)))
    assert copied(model, ops=PIECES) > 0


def test_what_the_host_reads_is_copied(gpu: str) -> None:
    """It reads a result from its first byte on. So do operations behind one of the host."""
    model = Model("host")
    left, right = halves(model, clamped(model, model.input("x", float32(2, 16))))
    before, after = halves(model, right)
    model.output(negated(model, before))
    (on_host,) = model.add("hashtable_lookup", [keys(model), keys(model), left])[:1]
    model.output(on_host, negated(model, after))
    assert copied(model, ops=PIECES) == 2


def keys(model: Model) -> Operand:
    return model.constant("keys", np.arange(2, dtype=np.int32))


@pytest.mark.parametrize("first", [0, 2])
def test_gates_of_parts_that_begin_in_a_later_row(gpu: str, first: int) -> None:
    """Each sample has the gate that belongs to it in the part, not in the larger tensor."""
    model = Model("later rows")
    x = clamped(model, model.input("x", float32(4, 2, 2, 16)))
    rows = (slice(first, first + 2), slice(0, 2), slice(0, 2), slice(8, 16))
    model.output(gated(model, sliced(model, x, *rows)))
    copied(model, values(model), PIECES)
