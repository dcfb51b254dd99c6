"""stack_pieces: what is transposed piece by piece is transposed as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.stack_pieces import stack_pieces
from gpunn.types import DType, Quantization, TensorType, float32
from tests.passes.same import ops, same

HEADS, TOKENS, DEPTH = 2, 5, 4
WIDTH = HEADS * DEPTH
SCALED = TensorType(DType.INT8, (1, TOKENS, 3 * WIDTH), Quantization((0.1,), (3,)))


def add(model: Model, op: str, *inputs: Operand, **attrs: Any) -> Operand:
    return model.add(op, inputs, attrs)[0]


def given(model: Model, *shape: int) -> Operand:
    return add(model, "tanh", model.input("x", float32(*shape)))


def piece(model: Model, x: Operand, axis: int, first: int, count: int) -> Operand:
    """A slice of x along an axis."""
    begin, end = [0] * x.type.rank, [*x.type.shape]
    begin[axis], end[axis] = first, first + count
    strides = (1,) * x.type.rank
    return add(model, "strided_slice", x, begin=tuple(begin), end=tuple(end), strides=strides, shrink_axes=())


def heads(model: Model, x: Operand) -> Operand:
    """The heads of queries, keys or values, each with its rows."""
    parted = add(model, "reshape", x, shape=(1, TOKENS, HEADS, DEPTH))
    moved = add(model, "transpose", parted, perm=(0, 2, 1, 3))
    return add(model, "reshape", moved, shape=(HEADS, TOKENS, DEPTH))


def side_by_side(model: Model) -> list[Operand]:
    """As GPT-2 has them."""
    x = given(model, 1, TOKENS, 3 * WIDTH)
    return [heads(model, piece(model, x, 2, k * WIDTH, WIDTH)) for k in range(3)]


def by_split(model: Model) -> list[Operand]:
    """The same, the last piece first."""
    x = given(model, 1, TOKENS, 3 * WIDTH)
    q, k, v = model.add("split", [x], {"sizes": (WIDTH,) * 3, "axis": 2})
    return [heads(model, y) for y in (v, k, q)]


def within_heads(model: Model) -> list[Operand]:
    """As TinyViT has them: side by side in each head."""
    x = add(model, "reshape", given(model, TOKENS, 3 * WIDTH), shape=(TOKENS, HEADS, 3 * DEPTH))
    pieces = [piece(model, x, 2, k * DEPTH, DEPTH) for k in range(3)]
    return [add(model, "transpose", y, perm=(1, 0, 2)) for y in pieces]


def behind_a_transposition(model: Model) -> list[Operand]:
    """As PyTorch's MultiheadAttention has them."""
    x = add(model, "reshape", given(model, TOKENS, 3 * WIDTH), shape=(TOKENS, 1, 3, WIDTH))
    x = add(model, "transpose", x, perm=(2, 0, 1, 3))
    pieces = [add(model, "reshape", y, shape=(TOKENS, WIDTH)) for y in model.add("unstack", [x], {"axis": 0})]
    return [heads(model, y) for y in pieces]


def parted_afterwards(model: Model) -> list[Operand]:
    """As MaxViT has them: transposed as a whole, but side by side in each row."""
    x = add(model, "reshape", given(model, TOKENS, 3 * WIDTH), shape=(TOKENS, HEADS, 3 * DEPTH))
    x = add(model, "transpose", x, perm=(1, 0, 2))
    return [piece(model, x, 2, k * DEPTH, DEPTH) for k in range(3)]


def finished(model: Model, pieces: list[Operand]) -> Model:
    model.output(*(add(model, "neg", y) for y in pieces))
    return model


@pytest.mark.parametrize(
    "build", [side_by_side, by_split, within_heads, behind_a_transposition, parted_afterwards]
)
def test_pieces_move_together(build: Callable[[Model], list[Operand]]) -> None:
    model = Model()
    changed = same(finished(model, build(model)), stack_pieces)
    assert ops(changed).count("transpose") == 1
    assert ops(changed).count("split") == 1
    again = same(changed, stack_pieces)
    assert again is changed
    same(model, optimise)


def test_products_read_the_pieces_where_they_lie(gpu: str) -> None:
    """The transposition is the only copy."""
    model = Model()
    q, k, v = side_by_side(model)
    scores = add(model, "softmax", add(model, "batch_matmul", q, k, adj_b=True), beta=1.0, axis=-1)
    model.output(add(model, "batch_matmul", scores, v, adj_b=False))
    x = np.random.default_rng(0).standard_normal(model.inputs[0].type.shape, np.float32)
    results = []
    for backend in (gpu, "cpu"):
        with model.compile(backend) as compiled:
            results.append(np.asarray(compiled(x)))
            placed = [p.operation.op for p in compiled.placement if p.kernels]
            assert backend == "cpu" or not {"split", "strided_slice"} & {*placed}
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


def test_keys_that_are_normalised_move_with_the_others(gpu: str) -> None:
    """As in Swin v2: keys are transposed for the product, behind their normalisation."""
    model = Model()
    x = add(model, "reshape", given(model, TOKENS, 3 * WIDTH), shape=(1, TOKENS, 3, HEADS, DEPTH))
    x = add(model, "transpose", x, perm=(2, 0, 3, 1, 4))
    parts = (add(model, "reshape", piece(model, x, 0, k, 1), shape=(HEADS, TOKENS, DEPTH)) for k in range(3))
    q, k, v = parts
    q, k = (add(model, "l2_normalization", y, axis=-1) for y in (q, k))
    scores = add(model, "batch_matmul", q, add(model, "transpose", k, perm=(0, 2, 1)))
    model.output(add(model, "batch_matmul", add(model, "softmax", scores, axis=-1), v))
    assert ops(same(model, optimise)).count("transpose") == 1
    with model.compile(gpu) as compiled:
        assert "strided_slice" not in [p.operation.op for p in compiled.placement if p.kernels]


def test_stored_integers_move_as_they_are() -> None:
    model = Model()
    x = add(model, "maximum", model.input("x", SCALED), model.input("y", SCALED))
    pieces = [heads(model, piece(model, x, 2, k * WIDTH, WIDTH)) for k in range(3)]
    model.output(*(add(model, "relu", y) for y in pieces))
    assert ops(same(model, stack_pieces)).count("transpose") == 1


def one_is_read_before(model: Model) -> list[Operand]:
    x = given(model, 1, TOKENS, 3 * WIDTH)
    pieces = [piece(model, x, 2, k * WIDTH, WIDTH) for k in range(3)]
    return [*(heads(model, y) for y in pieces), pieces[0]]


def the_tensor_is_read(model: Model) -> list[Operand]:
    x = given(model, 1, TOKENS, 3 * WIDTH)
    return [*(heads(model, piece(model, x, 2, k * WIDTH, WIDTH)) for k in range(3)), x]


def some_is_left_out(model: Model) -> list[Operand]:
    x = given(model, 1, TOKENS, 3 * WIDTH)
    return [heads(model, piece(model, x, 2, k * WIDTH, WIDTH)) for k in range(2)]


def pieces_overlap(model: Model) -> list[Operand]:
    x = given(model, 1, TOKENS, 3 * WIDTH)
    return [heads(model, piece(model, x, 2, first, WIDTH)) for first in (0, WIDTH // 2, 2 * WIDTH)]


def one_moves_otherwise(model: Model) -> list[Operand]:
    x = given(model, 1, TOKENS, 3 * WIDTH)
    first, *others = (piece(model, x, 2, k * WIDTH, WIDTH) for k in range(3))
    return [add(model, "transpose", first, perm=(0, 2, 1)), *(heads(model, y) for y in others)]


def no_piece_is_transposed(model: Model) -> list[Operand]:
    x = given(model, 1, TOKENS, 3 * WIDTH)
    return [add(model, "reshape", piece(model, x, 2, k * WIDTH, WIDTH), shape=(5, 8)) for k in range(3)]


@pytest.mark.parametrize(
    "build",
    [
        one_is_read_before,
        the_tensor_is_read,
        some_is_left_out,
        pieces_overlap,
        one_moves_otherwise,
        no_piece_is_transposed,
    ],
)
def test_other_pieces_stay(build: Callable[[Model], list[Operand]]) -> None:
    model = Model()
    assert stack_pieces(finished(model, build(model))) is model


def test_results_of_the_model_may_be_pieces() -> None:
    model = Model()
    model.output(*side_by_side(model))
    assert ops(same(model, stack_pieces)).count("transpose") == 1


def test_a_result_on_the_way_stays() -> None:
    model = Model()
    x = given(model, 1, TOKENS, 3 * WIDTH)
    pieces = [piece(model, x, 2, k * WIDTH, WIDTH) for k in range(3)]
    model.output(pieces[1], *(heads(model, y) for y in pieces))
    assert stack_pieces(model) is model
