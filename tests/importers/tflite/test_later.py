"""Operators that are rare in models: errors, refusals, and published files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.model import load
from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.case import ints
from tests.ops.harness import type_of
from tests.resources import shared
from tests.tflite_builder import Graph, litert_run, single_op

VOLUME, CUBE = (1, 2, 2, 2, 3), np.ones((1, 1, 1, 3, 3), np.float32)
STEPS = {"stride_d": 1, "stride_h": 1, "stride_w": 1}
NUMBERS = (ints(3), np.float32(0.5), np.float32(0), np.float32(-1))


@pytest.mark.parametrize(
    ("operator", "inputs", "options", "reason"),
    [
        ("ADD_N", [float32(2), float32(3)], {}, "the terms should have one shape"),
        ("BITCAST", [TensorType(DType.INT16, (3,))], {}, "the last dimension must be 2"),
        ("BITCAST", [TensorType(DType.INT16, ())], {}, "the last dimension must be 2"),
        ("BROADCAST_ARGS", [ints(2, 3), ints(2)], {}, "cannot be broadcast together"),
        ("BROADCAST_ARGS", [ints(2), np.array([2], np.int64)], {}, r"the shapes are int32\[1\] and int64"),
        ("BROADCAST_TO", [float32(2), ints(3)], {}, "cannot be broadcast together"),
        ("CONV_3D", [float32(1, 2, 2, 2, 1), float32(1, 1, 1, 1, 1)], {}, "stride must be at least 1"),
        ("CONV_3D_TRANSPOSE", [ints(*VOLUME), CUBE, float32(*VOLUME)], {}, "strides over 0"),
        ("CONV_3D_TRANSPOSE", [ints(*VOLUME), CUBE, float32(2)], STEPS, "takes five dimensions"),
        ("CONV_3D_TRANSPOSE", [ints(1, 9, 2, 2, 3), CUBE, float32(*VOLUME)], STEPS, "does not come of"),
        ("CONV_3D_TRANSPOSE", [ints(2, 2, 2, 2, 3), CUBE, float32(*VOLUME)], STEPS, "does not come of"),
        ("CONV_3D_TRANSPOSE", [ints(1, 2, 2, 2, 4), CUBE, float32(*VOLUME)], STEPS, "does not come of"),
        ("DILATE", [float32(2), ints(0), np.float32(0)], {}, "steps should be at least 1"),
        ("DILATE", [float32(2), ints(1, 2), np.float32(0)], {}, "expected 1 steps, got 2"),
        ("NON_MAX_SUPPRESSION_V4", [float32(2, 4), float32(3), *NUMBERS], {}, "boxes .N, 4. and scores"),
        (
            "NON_MAX_SUPPRESSION_V4",
            [float32(2, 4), float32(2), ints(-1), *NUMBERS[1:]],
            {},
            "max_output_size must be",
        ),
        ("NON_MAX_SUPPRESSION_V5", [float32(2, 4), float32(2), *NUMBERS], {}, "sigma must be 0 or more"),
        ("UNIQUE", [float32(2, 3)], {"idx_out_type": "INT32"}, "takes a list of numbers"),
        ("UNIQUE", [float32(2)], {"idx_out_type": "INT16"}, "takes a list of numbers"),
        ("SEGMENT_SUM", [float32(2), ints(1, 0)], {}, "should be a list in ascending order"),
        ("SEGMENT_SUM", [float32(2), ints([0, 1])], {}, "should be a list in ascending order"),
        ("UNSORTED_SEGMENT_SUM", [float32(2), ints(0, 1), ints(-1)], {}, "segments must be >= 0"),
        ("SCATTER_ND", [ints([0]), float32(1), ints(-1)], {}, "do not name slices of shape"),
    ],
)
def test_wrong_operators_are_refused(
    operator: str, inputs: Sequence[Array | TensorType], options: Mapping[str, Any], reason: str
) -> None:
    with pytest.raises((FormatError, ModelError), match=f"operation 0, {operator}.*{reason}"):
        load(single_op(operator, inputs, [float32(1)], options))


def test_buckets_of_the_option(backend: str) -> None:
    """Boundaries are written as bits of integers, because the builder writes vectors of integers."""
    bits = np.array([-1.5, 0.0, 2.0, 2**24 + 4, 2.0**62 + 2.0**40], np.float32).view(np.int32)
    near = [16_777_218, 16_777_219, 16_777_221]  # float32 rounds them to 2^24 + 2, + 4 and + 4
    for x in (
        np.array([-2, -1.5, 0.5, 2, 9], np.float32),
        np.array([-9, 0, *near], np.int32),
        np.array([*near, 2**62 + 2**39 - 1, 2**62 + 2**39 + 2**38], np.int64),
    ):
        file = single_op("BUCKETIZE", [type_of(x)], [TensorType(DType.INT32, (5,))], {"boundaries": bits})
        with load(file).compile(backend=backend) as compiled:
            assert {p.backend for p in compiled.placement} == {backend}
            assert compiled(x).tolist() == litert_run(file, [x])[0].tolist()


def test_reads_of_boundaries_are_bounded() -> None:
    """A subgraph with many boundaries that is called often would read them each time."""
    row, places = float32(1), TensorType(DType.INT32, (1,))
    inner, main = Graph(), Graph()
    buckets = inner.add(
        "BUCKETIZE", [inner.input(row)], [places], {"boundaries": np.zeros(1 << 16, np.int32)}
    )
    x = main.input(row)
    for _ in range(64):
        (y,) = main.add("CALL", [x], [places], {"subgraph": 1})
    with pytest.raises(UnsupportedError, match=r"BUCKETIZE: constants unfold to \d+ bytes, at most"):
        load(main.build([y], called=[(inner, list(buckets))]))


@pytest.mark.parametrize("count", [12, 64])
def test_reads_of_boundaries_by_pending_operators_are_bounded(count: int) -> None:
    """Their types are known when a run gives the shape; all operators of a graph then share one bound."""
    inner, main = Graph(), Graph()
    bits, places = {"boundaries": np.zeros(1 << 16, np.int32)}, TensorType(DType.INT32, (1,))
    buckets = inner.add("BUCKETIZE", [inner.input(float32(1), signature=(-1,))], [places], bits)
    x, shape = main.input(float32(4)), main.input(TensorType(DType.INT32, (2,)))
    (turned,) = main.add("RESHAPE", [x, shape], [float32(1)], signatures=[(-1, -1)])
    for _ in range(count):
        (y,) = main.add("CALL", [turned], [places], {"subgraph": 1}, signatures=[(-1, -1)])
    refused = pytest.raises(UnsupportedError, match=r"BUCKETIZE: constants unfold to \d+ bytes, at most")
    with load(main.build([y], called=[(inner, list(buckets))])).compile("cpu") as compiled:
        for shape in ((1, 4), (2, 2), (4, 1), (1, 4)):
            with refused if count > 32 else nullcontext():
                assert compiled(np.ones(4, np.float32), np.array(shape, np.int32)).shape == shape


def test_searches_of_constants_are_bounded() -> None:
    """Each of many operators would read a whole constant and find nothing."""
    graph = Graph()
    nowhere = graph.constant(np.zeros(1 << 20, np.int32))
    for _ in range(40):
        found = graph.add("WHERE", [nowhere], [TensorType(DType.INT64, (0, 1))])
    with pytest.raises(UnsupportedError, match=r"WHERE: constants unfold to \d+ bytes, at most"):
        load(graph.build(found))


def test_published_files() -> None:
    """One is well-formed and has tensors of 350 MB; the other has a constant without a buffer."""
    folder = "models/tflite_ops/tflite_testdata"
    (operation,) = load(shared(f"{folder}/conv3d_huge_im2col.bin")).operations
    assert (operation.op, operation.outputs[0].type.shape) == ("conv3d", (3, 40, 600, 600, 2))
    with pytest.raises(FormatError, match=r"input 1 of operation 0, SEGMENT_SUM, comes from nowhere"):
        load(shared(f"{folder}/segment_sum_invalid_buffer.bin"))
