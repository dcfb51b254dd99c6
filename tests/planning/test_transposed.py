"""Transpositions: operations of a GPU write at once where one would copy their results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.networks import vit_block
from gpunn import compare, gradients, load
from gpunn.compilation import on_gpu
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.ops.kernels.strides import in_order
from gpunn.ops.normalization.attention import attention
from gpunn.planning.join import join
from gpunn.planning.places import row_params
from gpunn.rows import Rows, Walk
from gpunn.types import Array, DType, Quantization, Shape, TensorType, float32
from tests.evaluator import random_inputs
from tests.ops.harness import limit_device, random
from tests.pairwise import pairwise
from tests.planning.appending import (
    add,
    batch,
    constant,
    conv,
    depthwise,
    dispatches,
    pointwise,
    pooled,
    whole,
)
from tests.planning.fusing import SUSTAINED, Last
from tests.planning.preferring import BODIES, prefer


@pytest.fixture(autouse=True)
def on_a_gpu(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels be made for a device that is no software."""
    limit_device(monkeypatch, software=False)


def moved(model: Model, x: Operand, *perm: int) -> Operand:
    return add(model, "transpose", x, perm=perm)


def left(model: Model, inputs: Sequence[Array] | None = None, least: int = 1) -> int:
    """Run a model with transpositions and without, compare the bits, and with the CPU's where all numbers are
    whole; return how many dispatches transpositions have. least: how many there are else.
    """
    given = [whole(*i.type.shape, dtype=i.type.dtype.numpy, seed=k) for k, i in enumerate(model.inputs)]
    given = given if inputs is None else [*inputs]
    found, count = ran(model, given)
    with copying():
        expected, copies = ran(model, given)
    assert copies >= least
    reference, _ = ran(model, given, "cpu")
    for y, z, r in zip(found, expected, reference, strict=True):
        np.testing.assert_array_equal(y, z, strict=True)
        if inputs is None:
            np.testing.assert_array_equal(y, r, strict=True)
    return count


@contextmanager
def copying() -> Iterator[None]:
    """Let transpositions copy, as on software."""
    with pytest.MonkeyPatch.context() as apart:
        apart.setattr(on_gpu, "join", lambda graph, placements, _: join(graph, placements, True))
        yield


def ran(model: Model, given: Sequence[Array], backend: str = "webgpu") -> tuple[tuple[Array, ...], int]:
    with model.compile(backend) as compiled:
        found = compiled(*given)
        moves = [p for p in compiled.placement if p.operation.op == "transpose"]
        return found if isinstance(found, tuple) else (found,), sum(len(p.kernels) for p in moves)


def heads(model: Model, x: Operand, count: int, *perm: int) -> Operand:
    """Multiply rows [batch, tokens, depth] with a matrix, and divide the result among heads."""
    size, tokens, depth = x.type.shape
    y = add(model, "fully_connected", x, constant(model, depth, depth), constant(model, depth, seed=2))
    return moved(model, add(model, "reshape", y, shape=(size, tokens, count, depth // count)), *perm)


def together(model: Model, x: Operand) -> Operand:
    size, count, tokens, depth = x.type.shape
    return add(model, "reshape", moved(model, x, 0, 2, 1, 3), shape=(size, tokens, count * depth))


def attended(model: Model, x: Operand, count: int, adj_b: bool, mask: bool) -> Operand:
    k = (0, 2, 1, 3) if adj_b else (0, 2, 3, 1)
    q, v = (heads(model, x, count, 0, 2, 1, 3) for _ in range(2))
    scores = add(model, "batch_matmul", q, heads(model, x, count, *k), adj_b=adj_b)
    scores = add(model, "mul", scores, model.constant("scale", np.float32(1e-3)))
    if mask:
        tokens = x.type.shape[1]
        given = model.constant("mask", np.triu(np.full((tokens, tokens), -1e9, np.float32), 1))
        scores = add(model, "add", scores, given)
    return together(model, add(model, "batch_matmul", add(model, "softmax", scores), v))


def blocks() -> Iterator[tuple[int, int, int, int, bool, bool]]:
    rng = np.random.default_rng(0)
    kinds = (False, True), (True, False), (True, True)
    for count, size, (adj_b, mask) in itertools.product((1, 3, 12), (1, 3), kinds):
        yield size, int(rng.integers(1, 21)) * 2 + 1, count, int(rng.integers(1, 14)), adj_b, mask


@pytest.mark.sample(3)
@pytest.mark.parametrize(("size", "tokens", "count", "depth", "adj_b", "mask"), [*blocks()])
def test_heads_of_attention(size: int, tokens: int, count: int, depth: int, adj_b: bool, mask: bool) -> None:
    """The bits of separate dispatches, near to float64."""
    model = Model("attention")
    x = model.input("x", float32(size, tokens, count * depth))
    model.output(attended(model, x, count, adj_b, mask))
    (value,) = random_inputs(model)
    assert left(model, [value], least=2 if count > 1 else 0) == 0
    assert compare(model, [value], ["webgpu"], per_layer=True).ok


def unary(model: Model, x: Operand, _: int) -> Operand:
    return add(model, "neg", x)


def a_sum_behind(model: Model, x: Operand, channels: int) -> Operand:
    y = conv(model, x, channels)
    return add(model, "add", y, add(model, "abs", y))


def reduced(model: Model, x: Operand, _: int) -> Operand:
    return add(model, "reduce_max", add(model, "stack", x, x, axis=1), axes=(1,))


PRODUCERS = (unary, conv, pointwise, depthwise, pooled, batch, a_sum_behind, reduced)
SHAPES, ORDERS = ((1, 4, 6, 8), (3, 5, 7, 4), (2, 3, 5, 7)), ((0, 2, 1, 3), (0, 3, 1, 2), (3, 2, 1, 0))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("produced", "shape", "perm"), pairwise(PRODUCERS, SHAPES, ORDERS))
def test_any_kernel_writes_in_another_order(
    produced: Callable[[Model, Operand, int], Operand], shape: Shape, perm: Shape
) -> None:
    model = Model("moved")
    y = produced(model, model.input("x", float32(*shape)), shape[3])
    model.output(moved(model, y, *perm))
    assert left(model) == 0


@pytest.mark.parametrize(("windows", "tokens", "count", "depth"), [(1, 9, 3, 8), (4, 9, 3, 8), (2, 5, 2, 3)])
def test_one_layer_for_queries_keys_and_values(windows: int, tokens: int, count: int, depth: int) -> None:
    """It stores them one behind the other, head by head, where products of matrices read them."""
    model = Model("one layer")
    x = model.input("x", float32(windows * tokens, 8))
    y = add(model, "fully_connected", x, constant(model, 3 * count * depth, 8))
    y = moved(model, add(model, "reshape", y, shape=(windows, tokens, 3, count, depth)), 2, 0, 3, 1, 4)
    q, k, v = model.add("unstack", [y], {"axis": 0})
    model.output(add(model, "batch_matmul", add(model, "batch_matmul", q, k, adj_b=True), v))
    assert left(model) == 0
    with model.compile("webgpu") as compiled:
        assert dispatches(compiled) == ["fully_connected", "batch_matmul", "batch_matmul"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("body", [*BODIES, "matmul_row", "batch_matmul", "batch_matmul_tile"])
@pytest.mark.parametrize("depth", [4, 3, 16])
def test_each_body_of_products(body: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    prefer(monkeypatch, body)
    model = Model("products")
    x = model.input("x", float32(2, 11, 3 * depth))
    q, k = heads(model, x, 3, 0, 2, 1, 3), heads(model, x, 3, 0, 2, 3, 1)
    model.output(together(model, add(model, "batch_matmul", q, k)))
    assert left(model) == 0


def test_a_transposed_part_is_written_into_the_larger_tensor() -> None:
    """New keys behind those of steps before."""
    model = Model("keys")
    x, past = model.input("x", float32(2, 5, 12)), model.input("past", float32(2, 3, 7, 4))
    model.output(add(model, "concat", past, heads(model, x, 3, 0, 2, 1, 3), axis=2))
    assert left(model) == 0
    with model.compile("webgpu") as compiled:
        assert dispatches(compiled) == ["fully_connected", "concat"]


def an_input(model: Model, x: Operand) -> list[Operand]:
    return [moved(model, x, 0, 2, 1, 3)]


def read_by_others(model: Model, x: Operand) -> list[Operand]:
    y = add(model, "neg", x)
    return [moved(model, y, 0, 2, 1, 3), add(model, "softmax", y)]


def an_output(model: Model, x: Operand) -> list[Operand]:
    y = add(model, "neg", x)
    return [moved(model, y, 0, 2, 1, 3), y]


def a_concatenation(model: Model, x: Operand) -> list[Operand]:
    y = add(model, "concat", add(model, "neg", x), add(model, "abs", x), axis=3)
    return [moved(model, y, 0, 2, 1, 3)]


def of_many_axes(model: Model, x: Operand) -> list[Operand]:
    y = add(model, "reshape", add(model, "neg", x), shape=(2, 3, 2, 2, 2, 2))
    return [moved(model, y, 5, 4, 3, 2, 1, 0)]


@pytest.mark.parametrize("build", [an_input, read_by_others, an_output, a_concatenation, of_many_axes])
def test_what_is_copied(build: Callable[[Model, Operand], list[Operand]]) -> None:
    model = Model("copied")
    model.output(*build(model, model.input("x", float32(2, 3, 4, 4))))
    exact = [whole(2, 3, 4, 4)] if build is read_by_others else None
    assert left(model, exact) == 1


def test_software_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_device(monkeypatch, software=True)
    model = Model("software")
    model.output(heads(model, model.input("x", float32(1, 5, 12)), 3, 0, 2, 1, 3))
    assert left(model) == 1


@pytest.mark.parametrize(
    ("channels", "perm", "expected"), [(8, (0, 2, 1, 3), 0), (8, (0, 3, 1, 2), 1), (6, (0, 2, 1, 3), 1)]
)
def test_elements_that_share_a_word_are_moved_in_fours_or_copied(
    channels: int, perm: Shape, expected: int
) -> None:
    model = Model("quantised")
    type = TensorType(DType.INT8, (2, 3, 5, channels), Quantization((0.1,), (3,)))
    model.output(moved(model, add(model, "relu6", model.input("x", type)), *perm))
    assert left(model) == expected


def test_attention_in_one_kernel_writes_in_another_order(tuner: Last) -> None:
    model = Model("attention")
    model.output(attended(model, model.input("x", float32(2, 17, 24)), 3, True, True))
    (value,) = random_inputs(model)
    with model.compile("webgpu", SUSTAINED) as compiled:
        assert dispatches(compiled) == ["fully_connected", "batch_matmul+mul+add+softmax+batch_matmul"]
        assert [r.kernel.body for r in compiled.plan_rows()][-1] == attention.name
        found = compiled(value)
    each, _ = tuner.offered
    assert all(w.rows is None for k in each.kernels for w in k.writes)
    with copying(), model.compile("webgpu", SUSTAINED) as copied:
        assert dispatches(copied)[-1] == "transpose"
        np.testing.assert_array_equal(found, copied(value), strict=True)


def test_kernels_that_are_measured_apart_store_in_fours(tuner: Last) -> None:
    """In the other order they would store single elements; a tuner measures them in their own."""
    model = Model("separable")
    y = pointwise(model, depthwise(model, model.input("x", float32(1, 6, 6, 8)), 8), 8)
    model.output(moved(model, y, 0, 3, 1, 2))
    assert left(model) == 0
    with model.compile("webgpu", SUSTAINED):
        each, *_ = tuner.offered
    assert [(w.width, w.rows) for k in each.kernels for w in k.writes] == [(4, None)] * 2


def test_a_block_of_a_transformer(tmp_path: Path) -> None:
    file = tmp_path / "block.tflite"
    file.write_bytes(vit_block())
    model = load(file)
    assert left(model, random_inputs(model)) == 0


def test_a_bundle_of_small_dispatches() -> None:
    model = Model("bundle")
    x = model.input("x", float32(1, 2, 3, 4))
    for _ in range(24):
        x = add(model, "neg", moved(model, add(model, "abs", x), 0, 2, 1, 3))
        x = moved(model, add(model, "sign", x), 0, 1, 3, 2)
        x = add(model, "reshape", x, shape=(1, 2, 3, 4))
    model.output(x)
    value = random(0, 1, 2, 3, 4)
    assert left(model, [value]) == 0
    with model.compile("webgpu") as compiled:
        compiled(value)
        assert compiled.stats.dispatches < len(compiled.plan_rows()), "it is no bundle"


def walks() -> Iterator[tuple[Shape, Shape]]:
    rng = np.random.default_rng(1)
    for _ in range(60):
        rank = int(rng.integers(1, 6))
        yield tuple(map(int, rng.choice([1, 2, 3, 4, 5, 8], rank))), tuple(map(int, rng.permutation(rank)))


def places(found: Rows | Walk, size: int) -> Array:
    """Return the place of each element, from the parameters of accessors."""
    params, unit = row_params("y", found), found.unit
    place = partial(np.asarray, dtype=np.int64)
    i = np.arange(size // unit)
    at = i * place(params.get("y_apart", 1)) + place(params["y_first"])
    for level in range(len(found.levels())):
        at += i // place(params[f"y_length{level}"]) * place(params[f"y_gap{level}"])
    at = at % 2**32
    return (at[:, None] * unit + np.arange(unit)).reshape(-1)


@pytest.mark.parametrize(("shape", "perm"), [*walks()])
def test_places_in_another_order(shape: Shape, perm: Shape) -> None:
    size = int(np.prod(shape))
    found = in_order(shape, perm)
    expected = np.empty(size, np.int64)
    expected[np.arange(size).reshape(shape).transpose(perm).reshape(-1)] = np.arange(size)
    if found is None:
        assert size == 1
        return
    np.testing.assert_array_equal(places(found, size), expected)
    for axis, first in itertools.product(range(len(shape)), (4, 3)):  # of a concatenation along that axis
        length = int(np.prod([shape[d] for d in perm[axis:]]))
        outer = Rows(length, length + 4 * length // shape[perm[axis]], first)
        inner = found.within(outer, size)
        if inner is not None:  # else rows end within what became one dimension
            within = expected // length * outer.pitch + expected % length + outer.first
            np.testing.assert_array_equal(places(inner, size), within)


def test_rows_that_end_within_a_dimension() -> None:
    assert Walk((4, 6), (1, 4)).within(Rows(6, 9, 0), 24) is None


def test_a_transposed_matrix() -> None:
    found = in_order((2, 1, 3), (2, 0, 1))
    assert found == Walk((2, 3), (1, 2))
    assert found.within(Rows(2, 5, 7), 6) == Walk((2, 3), (1, 5), 7)


def test_gradients_of_attention() -> None:
    model = Model("attention")
    x = model.input("x", float32(2, 9, 12))
    y = attended(model, x, 3, True, True)
    total = add(model, "reduce_sum", add(model, "mul", y, y), axes=(0, 1, 2))
    model.output(total)
    backward = gradients(model, loss=total, parameters=[x])
    with backward.compile("webgpu") as compiled:
        assert any(p.operation.op == "transpose" and not p.kernels for p in compiled.placement)
    given = [random(k, *i.type.shape) for k, i in enumerate(backward.inputs)]
    left(backward, given)
