"""Small .tflite files with huge demands: they are refused or run, soon, and without large allocations."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpunn.errors import GpunnError, ModelError, UnsupportedError
from gpunn.model import load
from gpunn.types import MAX_ELEMENTS, DType, Quantization, TensorType, float32
from tests.tflite_builder import Array, Graph

LIMIT_SECONDS = 5.0  # of CPU time, for files of a few KiB; a sound one takes hundreds of times less
LIMIT_BYTES = 64 << 20  # of memory while reading: for folded constants and for Python
NUMBERS = (0, 1, 2, 3, 7, 1000, 46341, 65536, 1 << 20, 1 << 24, 1 << 30, (1 << 31) - 1, -1, -(1 << 31))
EXTREMES = st.sampled_from(NUMBERS)
RUN_BYTES = 1 << 16  # of all tensors: a model below this size must run at once, or be refused
F, I8 = DType.FLOAT32, TensorType(DType.INT8, (1, 3, 3, 2), Quantization((0.1,), (0,)))
WINDOWS = {"stride_w": 1, "stride_h": 1}
ONE = np.ones((), np.float32)
IMAGE = np.ones((1, 3, 3, 2), np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


# Operators with the numbers that decide on the size of results: `n` and `m` stand for those of a file.
GREEDY: Mapping[str, Any] = {
    "AVERAGE_POOL_2D": lambda n, m: ([IMAGE], [F], {"filter_width": n, "filter_height": m, **WINDOWS}),
    "BATCH_MATMUL": lambda n, m: ([float32(n, 1, 0), float32(0, m)], [F], {}),
    "BATCH_TO_SPACE_ND": lambda n, m: ([IMAGE, ints(n, m), np.zeros((2, 2), np.int32)], [F], {}),
    "CONV_2D": lambda n, m: (
        [IMAGE, np.ones((1, 2, 2, 2), np.float32)],
        [F],
        {"dilation_w_factor": n, "dilation_h_factor": m, **WINDOWS},
    ),
    "DEPTHWISE_CONV_2D": lambda n, m: (
        [IMAGE, np.ones((1, 2, 2, 2), np.float32)],
        [F],
        {"dilation_w_factor": n, "dilation_h_factor": m, **WINDOWS},
    ),
    "EXPAND_DIMS": lambda n, m: ([float32(n, m, 0), ints(1)], [F], {}),
    "FILL": lambda n, m: ([ints(n, m), ONE], [F], {}),
    "FULLY_CONNECTED": lambda n, m: (
        [float32(n, 0), np.ones((3, 0), np.float32)],
        [F],
        {"keep_num_dims": True},
    ),
    "GATHER": lambda n, m: (
        [float32(n, 0), TensorType(DType.INT32, (n, 0))],
        [F],
        {"axis": 1, "batch_dims": 1},
    ),
    "L2_POOL_2D": lambda n, m: ([IMAGE], [F], {"filter_width": n, "filter_height": m, **WINDOWS}),
    "LOCAL_RESPONSE_NORMALIZATION": lambda n, m: ([IMAGE], [F], {"radius": n, "bias": 1.0, "beta": 1.0}),
    "MAX_POOL_2D": lambda n, m: ([I8], [I8.dtype], {"filter_width": n, "filter_height": m, **WINDOWS}),
    "MIRROR_PAD": lambda n, m: ([ints(1, 2), np.array([[n, m]], np.int32)], [DType.INT32], {}),
    "ONE_HOT": lambda n, m: ([ints(*range(m % 3)), np.array(n, np.int32), ONE, ONE], [F], {"axis": -1}),
    "PAD": lambda n, m: ([IMAGE[0, 0], np.array([[n, m], [0, 0]], np.int32)], [F], {}),
    "RANGE": lambda n, m: ([np.array(v, np.int32) for v in (n, m, 1)], [DType.INT32], {}),
    "RESHAPE": lambda n, m: ([float32(n, 0), ints(m, 0)], [F], {}),
    "RESIZE_BILINEAR": lambda n, m: ([IMAGE[:, :, :, :0], ints(n, m)], [F], {}),
    "RESIZE_NEAREST_NEIGHBOR": lambda n, m: ([IMAGE, ints(n, m)], [F], {}),
    "SPACE_TO_BATCH_ND": lambda n, m: ([IMAGE, ints(1, 1), np.array([[n, m], [0, 0]], np.int32)], [F], {}),
    "SPARSE_TO_DENSE": lambda n, m: (
        [ints(0, 0).reshape(1, 2), ints(n, m), ints(1), np.array(0, np.int32)],
        [DType.INT32],
        {},
    ),
    "STRIDED_SLICE": lambda n, m: ([float32(7), ints(n), ints(m), ints(1)], [F], {}),
    "TILE": lambda n, m: ([ints(1).reshape(1, 1), ints(n, m)], [DType.INT32], {}),
    "TOPK_V2": lambda n, m: ([float32(3, 4), np.array(n, np.int32)], [F, DType.INT32], {}),
    "TRANSPOSE_CONV": lambda n, m: (
        [ints(1, n, m, 1), np.ones((1, 2, 2, 2), np.float32), IMAGE[:, :1, :1]],
        [F],
        {"stride_w": n, "stride_h": m},
    ),
}


def greedy(operator: str, n: int, m: int, *, read: bool) -> bytes:
    """Return a file with an operator of huge outputs, whose shapes are open; `read` or left to folding."""
    graph = Graph()
    inputs, dtypes, options = GREEDY[operator](n, m)
    numbers = [graph.input(i) if isinstance(i, TensorType) else graph.constant(i) for i in inputs]
    results = _open_results(graph, operator, numbers, dtypes, options)
    return graph.build(results if read else [graph.constant(ONE)])


def _open_results(
    graph: Graph, operator: str, inputs: Sequence[int], dtypes: Sequence[DType], options: Mapping[str, Any]
) -> tuple[int, ...]:
    """Append an operator whose outputs have no shape in the file."""
    quantization = I8.quantization
    types = [TensorType(d, (), quantization if d is DType.INT8 else None) for d in dtypes]
    return graph.add(operator, inputs, types, options)


def runs_or_refuses(file: bytes) -> None:
    """Read and compile within bounds; run if it is small. It may raise only gpunn errors."""
    tracemalloc.start()
    start = time.process_time()
    try:
        model = load(file)
        program = model.compile("cpu")
        if sum(o.type.nbytes for o in model.operands()) < RUN_BYTES:
            program(*(np.ones(i.type.shape, i.type.dtype.numpy) for i in model.inputs))
    except GpunnError as error:
        assert "\n" not in str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert time.process_time() - start < LIMIT_SECONDS
    assert peak < LIMIT_BYTES


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(GREEDY)),
    EXTREMES.filter(lambda n: n >= 0) | EXTREMES,
    EXTREMES.filter(lambda n: n >= 0) | EXTREMES,
    st.booleans(),
)
def test_small_files_with_huge_demands(operator: str, n: int, m: int, read: bool) -> None:
    try:
        file = greedy(operator, n, m, read=read)
    except (OverflowError, TypeError, ValueError):  # the number does not fit its field
        return
    runs_or_refuses(file)


@pytest.mark.parametrize("operator", sorted(GREEDY))
def test_small_files_with_small_demands(operator: str) -> None:
    model = load(greedy(operator, 1, 1, read=True))
    model.compile("cpu")(*(np.ones(i.type.shape, i.type.dtype.numpy) for i in model.inputs))


def test_operators_without_inputs_are_refused() -> None:
    for operator, results in {"HASHTABLE_LOOKUP": (F, DType.UINT8), "CONCATENATION": (F,)}.items():
        graph = Graph()
        with pytest.raises(GpunnError, match="takes inputs"):
            load(graph.build(_open_results(graph, operator, [], results, {})))


def test_a_cast_to_strings_is_refused() -> None:
    graph = Graph()
    (y,) = graph.add("CAST", [graph.input(float32(2))], [TensorType(DType.STRING, (2,))])
    with pytest.raises(GpunnError, match=r"dtype must be one of float32, .*, got 'string'"):
        load(graph.build([y]))


@pytest.mark.parametrize("size", [(1 << 20, 1), (1 << 30, 2), (3, MAX_ELEMENTS)])
def test_windows_with_only_padding_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ModelError, match="too wide"):
        load(greedy("AVERAGE_POOL_2D", *size, read=True))


def test_empty_tensors_with_huge_extents_are_refused() -> None:
    big = (0, MAX_ELEMENTS, MAX_ELEMENTS, MAX_ELEMENTS)
    graph = Graph()
    with pytest.raises(ModelError, match="too large"):
        load(graph.build(graph.add("ABS", [graph.input(float32(*big))], [float32(*big)])))
    graph = Graph()
    constant = graph.tensor(float32(*big), data=b"")
    with pytest.raises(GpunnError):
        load(graph.build(graph.add("ABS", [constant], [float32(*big)])))


def _many(operator: str, constants: Sequence[Array], result: TensorType, count: int, *, odd: bool) -> bytes:
    """Return a file with an operator on the same constants many times; `odd`: after an unknown operator."""
    graph = Graph()
    inputs = [graph.constant(c) for c in constants]
    if odd:
        graph.add("NO_SUCH_OPERATOR", inputs[:1], [float32(1)])
    for _ in range(count):
        graph.add(operator, inputs, [result])
    return graph.build([graph.constant(ONE)])


@pytest.mark.parametrize("odd", [False, True])
def test_the_sum_of_unfolded_constants_is_bounded(odd: bool) -> None:
    bounds = [np.array(v, np.int32) for v in (0, 4_000_000, 1)]
    file = _many("RANGE", bounds, TensorType(DType.INT32, (4_000_000,)), 300, odd=odd)
    start = time.process_time()
    # Five ranges of 16 MB, each of three numbers.
    with pytest.raises(UnsupportedError, match="constants unfold to 80000060 bytes"):
        load(file)
    assert time.process_time() - start < LIMIT_SECONDS
    condition = np.ones((*(1,) * 7, 20_000), bool)
    with pytest.raises(UnsupportedError, match="WHERE: constants unfold"):
        load(_many("WHERE", [condition], TensorType(DType.INT64, (20_000, 8)), 100, odd=odd))


def test_operations_on_unfolded_constants_are_left_to_the_run() -> None:
    graph = Graph()
    shapes = graph.constant(ints(1, 1000, 1000, 1)), graph.constant(ints(1, 500, 500, 1))
    one = graph.constant(ONE)
    x, w = (_open_results(graph, "FILL", [shape, one], [F], {})[0] for shape in shapes)
    for operator in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        ways = {"padding": "VALID", "dilation_w_factor": 1, "dilation_h_factor": 1, **WINDOWS}
        _open_results(graph, operator, [x, w], [F], ways)
    _open_results(graph, "AVERAGE_POOL_2D", [x], [F], {"filter_width": 500, "filter_height": 500, **WINDOWS})
    (strip,) = _open_results(graph, "RESHAPE", [x, graph.constant(ints(1, 1, 1_000_000, 1))], [F], {})
    for operator in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
        _open_results(graph, operator, [strip, graph.constant(ints(1_000_000, 1))], [F], {})
    axes = graph.constant(ints(1, 2))
    for _ in range(300):
        _open_results(graph, "SUM", [x, axes], [F], {})
    runs_or_refuses(graph.build([one]))
