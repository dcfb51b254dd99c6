"""Lookups that combine: weighted sums of rows, and rows of several tables side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.harness import check, model_of, random, reference, type_of
from tests.tflite_builder import litert_run, single_op

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}
COMBINERS = ("sum", "mean", "sqrtn")


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


def sparse(seed: int, shape: tuple[int, ...], count: int, rows: int) -> tuple[Array, Array, Array]:
    """Return ids, sorted places in a sparse tensor of `shape`, and positive weights."""
    generator = np.random.default_rng(seed)
    flat = np.sort(generator.choice(int(np.prod(shape)), count, replace=False))
    places = np.stack(np.unravel_index(flat, shape), axis=-1).astype(np.int32)
    ids = generator.integers(0, rows, count, dtype=np.int32)
    return ids, places, generator.uniform(0.1, 2, count).astype(np.float32)


def test_sparse_by_hand(backend: str) -> None:
    """The example of TensorFlow's documentation of embedding_lookup_sparse, with a fourth, empty row."""
    values = np.arange(20, dtype=np.float32).reshape(10, 2)
    inputs = [ints(1, 3, 0, 1), ints([0, 0], [0, 1], [1, 0], [2, 3])]
    inputs += [np.array([2, 0.5, 1, 3], np.float32), values]
    sums = [[2 * 2 + 0.5 * 6, 2 * 3 + 0.5 * 7], [0, 1], [3 * 2, 3 * 3], [0, 0]]
    for combiner, divisors in (
        ("sum", [1, 1, 1, 1]),
        ("mean", [2.5, 1, 3, 1]),
        ("sqrtn", [np.sqrt(4.25), 1, 3, 1]),
    ):
        model = model_of("embedding_lookup_sparse", inputs, {"shape": (4, 4), "combiner": combiner})
        with model.compile(backend=backend) as compiled:
            expected = np.array(sums) / np.array(divisors)[:, None]
            np.testing.assert_allclose(compiled(*inputs), expected, rtol=1e-6)


@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize(
    ("shape", "item", "count"),
    [
        ((5, 4), (3,), 9),
        ((2, 3, 4), (8,), 11),
        ((7,), (2, 3), 4),
        ((6, 2), (1,), 0),
        ((1, 1), (5, 0), 1),
        ((9, 50), (4,), 400),
    ],
)
def test_sparse(
    combiner: str, shape: tuple[int, ...], item: tuple[int, ...], count: int, backend: str
) -> None:
    ids, places, weights = sparse(count, shape, count, 6)
    inputs = [ids, places, weights, random(1, 6, *item)]
    attrs = {"shape": shape, "combiner": combiner}
    (y,) = check("embedding_lookup_sparse", inputs, attrs, backend=backend)
    assert y.shape == (*shape[:-1], *item)


def test_more_ids_than_lavapipe_adds_up_at_once(backend: str) -> None:
    inputs = [*sparse(0, (1, 70_000), 65_000, 2), random(1, 2, 1)]
    attrs = {"shape": (1, 70_000)}
    check("embedding_lookup_sparse", inputs, attrs, backend=backend, rtol=65_000 * 2.0**-24)


@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize(("shape", "item"), [((5, 4), (3,)), ((2, 3, 4), (2, 2))])
def test_sparse_agrees_with_litert(combiner: str, shape: tuple[int, ...], item: tuple[int, ...]) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    ids, places, weights = sparse(3, shape, 9, 6)
    inputs = [ids, places, weights, random(1, 6, *item)]
    model = model_of("embedding_lookup_sparse", inputs, {"shape": shape, "combiner": combiner})
    types = [type_of(v) for v in inputs]
    operands = [*types[:2], ints(*shape), *types[2:]]
    options = {"combiner": COMBINERS.index(combiner)}
    file = single_op("EMBEDDING_LOOKUP_SPARSE", operands, [model.outputs[0].type], options)
    (expected,) = litert_run(file, inputs)
    (found,) = reference(model.operations[0], inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_order_of_sparse_ids_does_not_matter(backend: str) -> None:
    ids, places, weights = sparse(3, (5, 4), 9, 6)
    shuffled = np.random.default_rng(0).permutation(9)
    values = random(1, 6, 3)
    model = model_of("embedding_lookup_sparse", [ids, places, weights, values], {"shape": (5, 4)})
    with model.compile(backend=backend) as compiled:
        expected = compiled(ids, places, weights, values)
        found = compiled(ids[shuffled], places[shuffled], weights[shuffled], values)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("wrong", [-1, 6])
def test_sparse_ids_and_places_out_of_range_are_errors(wrong: int, backend: str) -> None:
    ids, places, weights = sparse(3, (6, 4), 9, 6)
    values = random(1, 6, 3)
    with model_of("embedding_lookup_sparse", [ids, places, weights, values], {"shape": (6, 4)}).compile(
        backend=backend
    ) as compiled:
        for at in (0, 1):
            inputs = [ids.copy(), places.copy(), weights, values]
            inputs[at][(3, 0)[: inputs[at].ndim]] = wrong
            with pytest.raises(ModelError, match=rf"embedding_lookup_sparse: .* in 0 \.\.\. 5, got {wrong}"):
                compiled(*inputs)


def test_columns_by_hand(backend: str) -> None:
    """Three columns that read a table of two rows, and one column that reads a table of three rows."""
    first, second = random(0, 2, 2), random(1, 3, 3)
    ids = ints([1, 0, 1, 2], [0, 0, 1, 0])
    (y,) = check("concat_embeddings", [ids, first, second], {"columns": (3, 1)}, backend=backend, **EXACT)
    rows = [[*first[1], *first[0], *first[1], *second[2]], [*first[0], *first[0], *first[1], *second[0]]]
    assert y.tolist() == np.array(rows).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.int8, np.int64])
@pytest.mark.parametrize("dims", [(4, 8), (3, 8, 1), (4, 3, 4), (5,)])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,)])
def test_columns(dims: tuple[int, ...], batch: tuple[int, ...], dtype: Any, backend: str) -> None:
    generator = np.random.default_rng(0)
    tables = [generator.integers(-100, 100, (3 + k, d)).astype(dtype) for k, d in enumerate(dims)]
    columns = [(2, 0, 3), (1, 2, 1)][len(batch) % 2][: len(dims)]
    ids = [generator.integers(0, 3 + k, (*batch, n)) for k, n in enumerate(columns)]
    joined = np.concatenate(ids, axis=-1).astype(np.int32)
    attrs = {"columns": columns}
    for constants in ((0,), tuple(range(1, 1 + len(dims)))):
        inputs = [joined, *tables]
        check("concat_embeddings", inputs, attrs, backend=backend, constants=constants, **EXACT)


@pytest.mark.parametrize(("wrong", "most"), [((0, 2), 1), ((1, 3), 2), ((0, -1), 1)])
def test_an_id_out_of_range_is_an_error(wrong: tuple[int, int], most: int, backend: str) -> None:
    inputs = [ints([0, 0], [0, 0]), random(0, 2, 2), random(1, 3, 3)]
    with model_of("concat_embeddings", inputs, {"columns": (1, 1)}).compile(backend=backend) as compiled:
        inputs[0][1, wrong[0]] = wrong[1]
        with pytest.raises(ModelError, match=rf"ids must be in 0 \.\.\. {most}, got {wrong[1]}"):
            compiled(*inputs)


def test_columns_keep_quantisation() -> None:
    model, quantization = Model("quantised"), Quantization((0.5,), (3,))
    ids = model.input("ids", TensorType(DType.INT32, (2, 2)))
    table = model.input("values", TensorType(DType.UINT8, (5, 3), quantization))
    (y,) = model.add("concat_embeddings", [ids, table], {"columns": (2,)})
    assert y.type == TensorType(DType.UINT8, (2, 6), quantization)
    other = model.input("other", TensorType(DType.UINT8, (5, 3)))
    with pytest.raises(ModelError, match="one dtype and quantisation"):
        model.add("concat_embeddings", [ids, table, other], {"columns": (1, 1)})


IDS, PLACES, WEIGHTS, ROWS = ints(0, 1), ints([0, 0], [1, 0]), random(0, 2), random(1, 5, 4)
SHAPE = {"shape": (2, 2)}


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("embedding_lookup_sparse", [IDS[None], PLACES, WEIGHTS, ROWS], SHAPE, "input 0 must have rank 1"),
        ("embedding_lookup_sparse", [IDS, IDS, WEIGHTS, ROWS], SHAPE, r"must be 2 places in shape \[2, 2\]"),
        (
            "embedding_lookup_sparse",
            [IDS, PLACES, WEIGHTS, ROWS],
            {"shape": (2,)},
            r"2 places in shape \[2\]",
        ),
        ("embedding_lookup_sparse", [IDS, PLACES, WEIGHTS, ROWS], {"shape": (-2, 2)}, "shape must be >= 0"),
        ("embedding_lookup_sparse", [IDS, PLACES, WEIGHTS[:1], ROWS], SHAPE, "a weight for each of 2"),
        ("embedding_lookup_sparse", [IDS, PLACES, WEIGHTS, ROWS[0]], SHAPE, "rank 2 or more"),
        ("embedding_lookup_sparse", [IDS, PLACES, WEIGHTS, PLACES], SHAPE, "input 3 must be float32"),
        ("embedding_lookup_sparse", [IDS, PLACES, WEIGHTS, ROWS], {}, "needs attribute shape"),
        (
            "embedding_lookup_sparse",
            [IDS, PLACES, WEIGHTS, ROWS],
            {**SHAPE, "combiner": "max"},
            "one of sum, mean, sqrtn, got 'max'",
        ),
        ("concat_embeddings", [IDS, ROWS], {"columns": (1,)}, r"ids must have columns \[1\]"),
        ("concat_embeddings", [IDS, ROWS], {"columns": (3, -1)}, "columns must have 1 entries"),
        ("concat_embeddings", [IDS, ROWS[0]], {"columns": (2,)}, "input 1 must have rank 2"),
        ("concat_embeddings", [WEIGHTS, ROWS], {"columns": (2,)}, "input 0 must be int32"),
        ("concat_embeddings", [IDS, ROWS, PLACES], {"columns": (1, 1)}, "one dtype and quantisation"),
    ],
)
def test_errors(op: str, inputs: list[Array], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}: .*{message}"):
        model_of(op, inputs, attrs)
