"""Operators that compute, choose, convert, create and look up values, on both backends, against LiteRT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import FormatError, UnsupportedError
from gpunn.importers.tflite.rules.value import MAX_RANGE
from gpunn.model import load
from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.case import ints
from tests.importers.tflite.cases_values import BOOL, I32, number
from tests.ops.harness import random
from tests.tflite_builder import Graph, single_op


def test_normalisation_with_an_activation_is_two_operations() -> None:
    file = single_op(
        "L2_NORMALIZATION", [float32(2, 3)], [float32(2, 3)], {"fused_activation_function": "RELU"}
    )
    assert [o.op for o in load(file).operations] == ["l2_normalization", "relu"]


ROW = float32(4)
TRUTH = TensorType(BOOL, (4,))
WRONG: dict[str, tuple[str, Sequence[Array | TensorType], Mapping[str, Any] | None, str]] = {
    "truth of reals": ("LOGICAL_AND", [ROW, ROW], None, "must be bool, got float32"),
    "reals compared with integers": ("LESS", [ROW, TensorType(I32, (4,))], None, "one dtype"),
    "choices": ("SELECT", [TRUTH, ROW, float32(3)], None, r"between shapes \[4\] and \[3\]"),
    "choice by reals": ("SELECT_V2", [ROW, ROW, ROW], None, "must be bool, got float32"),
    "bits": ("FAKE_QUANT", [ROW], {"min": -1.0, "max": 1.0, "num_bits": 1}, "num_bits must be 2 ... 16"),
    "crops": ("BATCH_TO_SPACE_ND", [float32(4, 2, 2, 1), ints(2, 2), ints(0, 0)], None, "crops should be pa"),
    "block": ("SPACE_TO_DEPTH", [float32(1, 2, 2, 1)], {"block_size": 0}, "block_size must be >= 1"),
    "negative extent": ("FILL", [ints(-2), number(1)], None, "must have entries >= 0"),
    "two values": ("FILL", [ints(2), ROW], None, "must have one element"),
    "no step": ("RANGE", [ints(0)[0], ints(4)[0], ints(0)[0]], None, "from 0 to 4 in steps of 0"),
    "wrong way": ("RANGE", [ints(0)[0], ints(4)[0], ints(-1)[0]], None, "steps of -1 do not lead"),
    "endless": ("RANGE", [number(0), number(np.inf), number(1)], None, "cannot go from 0.0 to inf"),
    "mixed": ("RANGE", [ints(0)[0], ints(4)[0], number(1)], None, "are int32, int32 and float32"),
    "vector": ("RANGE", [ints(0, 1), ints(4)[0], ints(1)[0]], None, "start should be one number, got 2"),
    "depth": ("ONE_HOT", [TensorType(I32, (4,)), ints(-1)[0], number(1), number(0)], None, "depth must be"),
    "on and off": (
        "ONE_HOT",
        [TensorType(I32, (4,)), ints(3)[0], number(1), ints(0)[0]],
        None,
        "one dtype and quantisation",
    ),
    "channels": (
        "CONCAT_EMBEDDINGS",
        [TensorType(I32, (2, 3)), float32(4, 5)],
        {"num_channels": 2, "num_columns_per_channel": [3], "embedding_dim_per_channel": [5]},
        "has 2 channels, columns for 1 and 1 tables",
    ),
    "dimensions": (
        "CONCAT_EMBEDDINGS",
        [TensorType(I32, (2, 3)), float32(4, 5)],
        {"num_channels": 1, "num_columns_per_channel": [3], "embedding_dim_per_channel": [4]},
        r"rows of \[4\] elements, got \[5\]",
    ),
    "combiner": (
        "EMBEDDING_LOOKUP_SPARSE",
        [ints(1), ints([0, 0]), ints(1, 1), np.ones(1, np.float32), float32(2, 2)],
        {"combiner": 3},
        "no combiner number 3",
    ),
    "projection": ("LSH_PROJECTION", [float32(2, 3), ROW], {"type": 0}, "no projection type number 0"),
}


@pytest.mark.parametrize(("operator", "inputs", "options", "reason"), WRONG.values(), ids=WRONG)
def test_wrong_operators_are_refused(
    operator: str, inputs: Sequence[Array | TensorType], options: Mapping[str, Any] | None, reason: str
) -> None:
    with pytest.raises(FormatError, match=reason) as caught:
        load(single_op(operator, inputs, [float32(1)], options))
    assert f"model: operation 0, {operator}" in str(caught.value)


def test_constants_of_bool_are_true_for_every_byte_but_0(backend: str) -> None:
    graph = Graph()
    flags = graph.tensor(TensorType(DType.BOOL, (4,)), data=bytes([0, 1, 16, 255]))
    x = graph.input(TensorType(DType.BOOL, (4,)))
    file = graph.build(graph.add("LOGICAL_AND", [flags, x], [TensorType(DType.BOOL, (4,))]))
    x = np.array([True, True, True, False])
    with load(file).compile(backend) as compiled:
        assert compiled(x).view(np.uint8).tolist() == [0, 1, 1, 0]


def test_bools_have_no_activation() -> None:
    graph = Graph()
    flags = [graph.input(TensorType(DType.BOOL, (2,))) for _ in range(2)]
    options = {"axis": 0, "fused_activation_function": "RELU_N1_TO_1"}
    joined = graph.add("CONCATENATION", flags, [TensorType(DType.BOOL, (4,))], options)
    with pytest.raises(FormatError, match="activation relu1 needs a float tensor"):
        load(graph.build(joined))


@pytest.mark.parametrize("dims", [[], [2, 3]])
def test_embeddings_side_by_side(dims: list[int], backend: str) -> None:
    """LiteRT has no kernel for CONCAT_EMBEDDINGS: two columns of one table and one of another, by hand."""
    first, second = random(0, 4, 2), random(1, 3, 3)
    options = {"num_channels": 2, "num_columns_per_channel": [2, 1], "embedding_dim_per_channel": dims}
    ids = TensorType(I32, (2, 3))
    file = single_op("CONCAT_EMBEDDINGS", [ids, first, second], [float32(2, 7)], options)
    with load(file).compile(backend=backend) as compiled:
        assert {p.backend for p in compiled.placement} == {backend}
        found = compiled(ints([3, 0, 2], [1, 1, 0]))
    expected = [[*first[3], *first[0], *second[2]], [*first[1], *first[1], *second[0]]]
    np.testing.assert_array_equal(found, np.array(expected))


@pytest.mark.parametrize(
    ("operator", "inputs", "reason"),
    [
        ("RANGE", [ints(0)[0], ints(MAX_RANGE + 1)[0], ints(1)[0]], "at most 4194304 are supported"),
    ],
)
def test_too_large_demands_are_refused(
    operator: str, inputs: Sequence[Array | TensorType], reason: str
) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        load(single_op(operator, inputs, [float32(1)]))
