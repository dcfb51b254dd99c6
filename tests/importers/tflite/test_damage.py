"""Damaged .tflite files: only gpunn's own errors come out, soon, and without large allocations."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpunn.errors import GpunnError, ModelError, UnsupportedError
from gpunn.graph.parts import walk
from gpunn.model import load
from gpunn.passes import optimise
from gpunn.types import MAX_ELEMENTS, DType, Quantization, TensorType, float32
from tests.importers.tflite.test_resources import adding, looping
from tests.tflite_builder import Array, Graph
from tests.tflite_writer import Sparsity

LIMIT_SECONDS = 5.0  # for files of a few KiB: hundreds of times what a sound one takes
LIMIT_BYTES = 64 << 20  # of memory while reading: what folding may keep, and room for Python


def _sample() -> bytes:
    """A file with constants, options, vectors, metadata and a signature."""
    graph = Graph()
    x = graph.input(float32(1, 6, 6, 3))
    window = {"stride_w": 1, "stride_h": 1, "fused_activation_function": "RELU6"}
    (p,) = graph.add("PAD", [x, graph.constant(np.eye(4, 2, dtype=np.int32))], [float32(2, 7, 6, 3)])
    (s,) = graph.add(
        "STRIDED_SLICE",
        [p, *(graph.constant(np.array(v, np.int32)) for v in ([0, 1], [1, 7], [1, 1]))],
        [float32(1, 6, 6, 3)],
    )
    filters = graph.constant(np.ones((4, 3, 3, 3), np.float32))
    bias = graph.constant(np.ones(4, np.float32))
    (c,) = graph.add("CONV_2D", [s, filters, bias], [float32(1, 6, 6, 4)], window)
    (d,) = graph.add("CONCATENATION", [c, c], [float32(1, 6, 6, 8)], {"axis": 3})
    (m,) = graph.add("MEAN", [d, graph.constant(np.array([1, 2], np.int32))], [float32(1, 8)])
    (r,) = graph.add("RESHAPE", [m, graph.constant(np.array([2, -1], np.int32))], [float32(2, 4)])
    (q,) = graph.add("SQUEEZE", [r], [float32(2, 4)], {"squeeze_dims": []})
    (y,) = graph.add("SOFTMAX", [q], [float32(2, 4)], {"beta": 1.0})
    whole = TensorType(DType.INT8, (2, 4), Quantization((0.01,), (-3,)))
    (i,) = graph.add("QUANTIZE", [q], [whole])
    scales = Quantization((0.1, 0.2, 0.3), (0, 0, 0), 0)
    weights = graph.tensor(TensorType(DType.INT8, (3, 4), scales), data=bytes(range(12)))
    product = TensorType(DType.INT8, (2, 3), Quantization((0.2,), (5,)))
    (f,) = graph.add("FULLY_CONNECTED", [i, weights], [product])
    (r,) = graph.add("DEQUANTIZE", [f], [float32(2, 3)])
    sparsity = Sparsity((0, 1), (), [2, ((0, 1, 2), (2, 0))], "Uint8")
    (sparse, small) = (
        graph.tensor(float32(2, 3), data=np.ones(2, np.float32).tobytes(), sparsity=sparsity),
        graph.tensor(
            TensorType(DType.INT8, (1, 2), Quantization((0.1,), (0,))), data=b"\x71", stored_as="INT4"
        ),
    )
    for weights, width in ((sparse, 2), (small, 1)):
        (r,) = graph.add("FULLY_CONNECTED", [r, weights], [float32(2, width)])
    words = np.array([b"a line of words", b"", b"b"], object)
    row = np.array([[0, 2], [1, 0]], np.int32)
    (t,) = graph.add(
        "GATHER", [graph.constant(words), graph.constant(row)], [TensorType(DType.STRING, (2, 2))]
    )
    size = {"ngram_size": 2, "max_skip_size": 1, "include_all_ngrams": True}
    (s,) = graph.add("SKIP_GRAM", [graph.constant(words[:1])], [TensorType(DType.STRING, (9,))], size)
    return graph.build([y, r, s, t], metadata={"min_runtime_version": b"1.5.0"}, signature="main")


def _nested_sample() -> bytes:
    """A model with a loop, a choice in it, and a call in that, over six subgraphs."""
    row, flag = float32(1, 4), TensorType(DType.BOOL, ())
    graphs = [Graph() for _ in range(6)]
    main, condition, body, call, leaf, other = graphs
    xs = [g.input(row) for g in graphs]
    loop = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    choice = {"then_subgraph_index": 3, "else_subgraph_index": 5}
    (y,) = main.add("WHILE", xs[:1], [row], loop)
    zeros = [g.constant(np.array([0, 1], np.int32)) for g in (condition, body)]
    limits = [g.constant(np.float32(9)) for g in (condition, body)]
    (total,) = condition.add("SUM", [xs[1], zeros[0]], [float32()])
    goes_on = condition.add("LESS", [total, limits[0]], [flag])
    (total,) = body.add("SUM", [xs[2], zeros[1]], [float32()])
    (small,) = body.add("LESS", [total, limits[1]], [flag])
    chosen = body.add("IF", [small, xs[2]], [row], choice)
    called = call.add("CALL", [xs[3]], [row], {"subgraph": 4})
    results = [leaf.add("ABS", [xs[4]], [row]), other.add("NEG", [xs[5]], [row])]
    outputs = (goes_on, chosen, called, *results)
    return main.build([y], called=list(zip(graphs[1:], outputs, strict=True)))


SAMPLE = _sample()
NESTED = _nested_sample()
STATEFUL = looping(adding(True), True)
SAMPLES = pytest.mark.parametrize(
    "sample", [SAMPLE, NESTED, STATEFUL], ids=["one graph", "nested graphs", "resources"]
)
INTERESTING = [0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF]
AGES = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def survives(file: bytes) -> None:
    """Read and optimise; a gpunn error of one line is as good as a model."""
    start = time.perf_counter()
    try:
        optimise(load(file))
    except GpunnError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 20_000
    assert time.perf_counter() - start < LIMIT_SECONDS


def test_the_samples_are_sound() -> None:
    assert len(load(SAMPLE).operations) == 15
    found = [[o.op for o in body.operations] for body in walk(load(NESTED))]
    assert found == [
        ["while_loop"],
        ["reduce_sum", "less"],
        ["reduce_sum", "less", "if_else"],
        ["abs"],
        ["neg"],
    ]


@SAMPLES
def test_every_truncation(sample: bytes) -> None:
    for length in range(0, len(sample), 3):
        survives(sample[:length])


def test_every_byte_set_to_its_maximum() -> None:
    for position in range(len(SAMPLE)):
        changed = bytearray(SAMPLE)
        changed[position] = 0xFF
        survives(bytes(changed))


def test_every_subgraph_called_from_everywhere() -> None:
    """Circles among them: each byte that may be the number of a subgraph, as each such number."""
    numbers = [i for i, byte in enumerate(NESTED) if byte in range(1, 6)]
    for position in numbers:
        for number in range(6):
            changed = bytearray(NESTED)
            changed[position] = number
            survives(bytes(changed))


@SAMPLES
def test_every_word_set_to_its_extremes(sample: bytes) -> None:
    for position in range(0, len(sample) - 3, 4):
        for value in (0x7FFFFFFF, 0xFFFFFFFF):
            changed = bytearray(sample)
            struct.pack_into("<I", changed, position, value)
            survives(bytes(changed))


@SAMPLES
@AGES
@given(st.lists(st.integers(0, 8 * max(len(SAMPLE), len(NESTED))), min_size=1, max_size=12))
def test_bit_flips(sample: bytes, flips: list[int]) -> None:
    changed = bytearray(sample)
    for bit in flips:
        changed[bit // 8 % len(sample)] ^= 1 << bit % 8
    survives(bytes(changed))


@AGES
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(SAMPLE) // 4 - 1),
            st.one_of(st.sampled_from(INTERESTING), st.integers(0, len(SAMPLE) + 64)),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_words_exchanged(edits: list[tuple[int, int]]) -> None:
    changed = bytearray(SAMPLE)
    for word, value in edits:
        struct.pack_into("<I", changed, 4 * word, value)
    survives(bytes(changed))


@AGES
@given(st.integers(8, len(SAMPLE) - 1), st.binary(max_size=64))
def test_bytes_inserted_and_replaced(position: int, content: bytes) -> None:
    survives(SAMPLE[:position] + content + SAMPLE[position:])
    survives(SAMPLE[:position] + content + SAMPLE[position + len(content) :])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=512))
def test_noise_behind_the_identifier(noise: bytes) -> None:
    survives(SAMPLE[:8] + noise)


def test_huge_extents_allocate_nothing() -> None:
    graph = Graph()
    big = float32(1, 46000, 46000, 1)
    x = graph.input(big)
    scalar = graph.constant(np.ones((1, 1, 1, 1), np.float32))
    padding = graph.constant(np.array([[0, 0], [46000, 0], [46000, 0], [0, 0]], np.int32))
    (wide,) = graph.add("PAD", [scalar, padding], [float32(1, 46001, 46001, 1)])
    (y,) = graph.add("RELU", [x], [big])
    file = graph.build([y, wide])
    tracemalloc.start()
    try:
        survives(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LIMIT_BYTES


EXTREMES = st.sampled_from(
    [0, 1, 2, 3, 7, 1000, 46341, 65536, 1 << 20, 1 << 24, 1 << 30, (1 << 31) - 1, -1, -(1 << 31)]
)
RUN_BYTES = 1 << 16  # of all tensors: so small a model must run, or be refused, as soon as it is read
F, I8 = DType.FLOAT32, TensorType(DType.INT8, (1, 3, 3, 2), Quantization((0.1,), (0,)))
WINDOWS = {"stride_w": 1, "stride_h": 1}
ONE = np.ones((), np.float32)
IMAGE = np.ones((1, 3, 3, 2), np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


# Operators with the numbers that say how much they make: `n` and `m` stand for what a file may say.
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
    """A file with an operator that asks for much, in outputs of open shape: `read`, or left to folding."""
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
    """Read and compile within bounds; run if it is small. Only a gpunn error may come out."""
    tracemalloc.start()
    start = time.perf_counter()
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
    assert time.perf_counter() - start < LIMIT_SECONDS
    assert peak < LIMIT_BYTES


@settings(max_examples=1200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(GREEDY)),
    EXTREMES.filter(lambda n: n >= 0) | EXTREMES,
    EXTREMES.filter(lambda n: n >= 0) | EXTREMES,
    st.booleans(),
)
def test_small_files_that_ask_for_much(operator: str, n: int, m: int, read: bool) -> None:
    try:
        file = greedy(operator, n, m, read=read)
    except (OverflowError, TypeError, ValueError):  # the number does not fit the field, the file cannot be
        return
    runs_or_refuses(file)


@pytest.mark.parametrize("operator", sorted(GREEDY))
def test_small_files_that_ask_for_little(operator: str) -> None:
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
def test_windows_of_nothing_but_padding_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ModelError, match="too wide"):
        load(greedy("AVERAGE_POOL_2D", *size, read=True))


def test_empty_tensors_of_boundless_extents_are_refused() -> None:
    big = (0, MAX_ELEMENTS, MAX_ELEMENTS, MAX_ELEMENTS)
    graph = Graph()
    with pytest.raises(ModelError, match="too large"):
        load(graph.build(graph.add("ABS", [graph.input(float32(*big))], [float32(*big)])))
    graph = Graph()
    constant = graph.tensor(float32(*big), data=b"")
    with pytest.raises(GpunnError):
        load(graph.build(graph.add("ABS", [constant], [float32(*big)])))


def _many(operator: str, constants: Sequence[Array], result: TensorType, count: int, *, odd: bool) -> bytes:
    """A file that has an operator on the same constants often; `odd`: after one that is unknown."""
    graph = Graph()
    inputs = [graph.constant(c) for c in constants]
    if odd:
        graph.add("NO_SUCH_OPERATOR", inputs[:1], [float32(1)])
    for _ in range(count):
        graph.add(operator, inputs, [result])
    return graph.build([graph.constant(ONE)])


@pytest.mark.parametrize("odd", [False, True])
def test_constants_that_unfold_often_are_bounded_in_sum(odd: bool) -> None:
    bounds = [np.array(v, np.int32) for v in (0, 4_000_000, 1)]
    file = _many("RANGE", bounds, TensorType(DType.INT32, (4_000_000,)), 300, odd=odd)
    start = time.perf_counter()
    # Five ranges of 16 MB, and three numbers that each is made of.
    with pytest.raises(UnsupportedError, match="constants unfold to 80000060 bytes"):
        load(file)
    assert time.perf_counter() - start < LIMIT_SECONDS
    condition = np.ones((*(1,) * 7, 20_000), bool)
    with pytest.raises(UnsupportedError, match="WHERE: constants unfold"):
        load(_many("WHERE", [condition], TensorType(DType.INT64, (20_000, 8)), 100, odd=odd))


def test_work_on_unfolded_constants_is_left_to_the_run() -> None:
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
