"""Damaged .tflite files: gpunn raises only its own errors, soon, and without large allocations."""

from __future__ import annotations

import struct
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpunn.errors import GpunnError
from gpunn.graph.parts import walk
from gpunn.model import load
from gpunn.passes import optimise
from gpunn.types import DType, Quantization, TensorType, float32
from tests.importers.tflite.test_demands import LIMIT_BYTES, LIMIT_SECONDS
from tests.importers.tflite.test_resources import adding, looping
from tests.tflite_builder import Graph
from tests.tflite_parts import Sparsity


def _sample() -> bytes:
    """Return a file with constants, options, vectors, metadata and a signature."""
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
    """Return a file of six subgraphs: a loop with an IF inside, which has a call inside."""
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
AGES = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def survives(file: bytes) -> None:
    """Read and optimise; either a model results, or a gpunn error of one line."""
    start = time.process_time()
    try:
        optimise(load(file))
    except GpunnError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 20_000
    assert time.process_time() - start < LIMIT_SECONDS


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
def test_truncations(sample: bytes) -> None:
    for length in range(0, len(sample), 7):
        survives(sample[:length])


def test_bytes_set_to_their_maximum() -> None:
    """Every seventh one: some of each place in a word."""
    for position in range(0, len(SAMPLE), 7):
        changed = bytearray(SAMPLE)
        changed[position] = 0xFF
        survives(bytes(changed))


def test_every_subgraph_called_from_everywhere() -> None:
    """Set each byte that may be the number of a subgraph to every such number; some of these are circles."""
    numbers = [i for i, byte in enumerate(NESTED) if byte in range(1, 6)]
    for position in numbers:
        for number in range(6):
            changed = bytearray(NESTED)
            changed[position] = number
            survives(bytes(changed))


@SAMPLES
def test_every_third_word_set_to_its_extremes(sample: bytes) -> None:
    for position in range(0, len(sample) - 3, 12):
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
def test_words_replaced(edits: list[tuple[int, int]]) -> None:
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
def test_noise_after_the_identifier(noise: bytes) -> None:
    survives(SAMPLE[:8] + noise)


def test_huge_extents_allocate_nothing() -> None:
    graph = Graph()
    big = float32(1, 46000, 46000, 1)
    x = graph.input(big)
    scalar = graph.constant(np.ones((1, 1, 1, 1), np.float32))
    padding = graph.constant(np.array([[0, 0], [46000, 0], [46000, 0], [0, 0]], np.int32))
    (padded,) = graph.add("PAD", [scalar, padding], [float32(1, 46001, 46001, 1)])
    (y,) = graph.add("RELU", [x], [big])
    file = graph.build([y, padded])
    tracemalloc.start()
    try:
        survives(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LIMIT_BYTES
