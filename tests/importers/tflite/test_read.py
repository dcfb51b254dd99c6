"""The TFLite reader: files that it reads, files that it refuses, and labels."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import tflite

from gpunn.errors import FormatError, UnsupportedError
from gpunn.model import load
from gpunn.types import DType, TensorType, float32
from tests import evaluator
from tests.tflite_builder import Graph, Node, litert_run, single_op

ROW = float32(1, 4)
X = np.array([[-1.5, 0.0, 2.0, 9.0]], np.float32)


def chain(*operators: str, type: TensorType = ROW) -> tuple[Graph, int]:
    """Return a graph of unary operators, and its last tensor."""
    graph = Graph()
    tensor = graph.input(type)
    for operator in operators:
        (tensor,) = graph.add(operator, [tensor], [type])
    return graph, tensor


@pytest.mark.parametrize("codes", ["old", "new", "both"])
def test_operator_codes_of_all_schema_versions_are_read(codes: str) -> None:
    graph, y = chain("RELU", "TANH", "RELU")
    file = graph.build([y], codes=codes)
    assert [o.op for o in load(file).operations] == ["relu", "tanh", "relu"]
    np.testing.assert_allclose(evaluator.run(load(file), [X])[0], litert_run(file, [X])[0], atol=1e-6)


@pytest.mark.parametrize("alignment", [1, 4, 16])
def test_buffers_need_no_alignment(alignment: int) -> None:
    graph = Graph()
    x = graph.input(ROW)
    a = graph.constant(np.ones(4, np.float32))
    b = graph.constant(np.arange(4, dtype=np.float32))
    (y,) = graph.add("ADD", [x, a], [ROW])
    (z,) = graph.add("MUL", [y, b], [ROW])
    model = load(graph.build([z], alignment=alignment))
    np.testing.assert_allclose(evaluator.run(model, [X])[0], (X + 1) * np.arange(4), atol=1e-6)


def test_buffers_after_the_flatbuffer() -> None:
    graph = Graph()
    a, b = (graph.constant(np.arange(4, dtype=np.float32) + k) for k in (0, 4))
    (y,) = graph.add("ADD", [graph.input(ROW), a], [ROW])
    (z,) = graph.add("MUL", [y, b], [ROW])
    file = graph.build([z], outside=True)
    np.testing.assert_allclose(evaluator.run(load(file), [X])[0], litert_run(file, [X])[0])
    with pytest.raises(FormatError, match="ends at byte"):
        load(file[:-1])


def test_missing_and_equal_names_of_tensors_become_unique() -> None:
    graph = Graph()
    x = graph.input(ROW, None)
    y = graph.input(ROW, "same")
    (z,) = graph.add("ADD", [x, y], [ROW], names=["same"])
    (w,) = graph.add("RELU", [z], [ROW], names=["same"])
    (v,) = graph.add("RELU", [w], [ROW], names=["same:1"])
    model = load(graph.build([v]))
    assert [o.name for o in model.operands()] == ["tensor_0", "same", "same:1", "same:2", "same:1:1"]


def test_names_cannot_control_a_terminal() -> None:
    graph = Graph()
    x = graph.input(ROW, "a\x1b[31mb\nc")
    (y,) = graph.add("RELU", [x], [ROW], names=["n" * 5000])
    model = load(graph.build([y]))
    assert model.inputs[0].name == "a\ufffd[31mb\ufffdc"
    assert len(model.outputs[0].name) == 1024


def test_metadata_signatures_and_open_dimensions_are_accepted() -> None:
    graph = Graph()
    x = graph.input(ROW, signature=(-1, 4))
    (y,) = graph.add("RELU", [x], [ROW])
    file = graph.build([y], metadata={"min_runtime_version": b"1.5.0"}, signature="serving_default")
    model = load(file)
    assert model.inputs[0].type == ROW
    np.testing.assert_allclose(evaluator.run(model, [X])[0], litert_run(file, [X])[0])


def test_open_output_dimensions_are_not_compared() -> None:
    graph = Graph()
    x = graph.input(float32(3, 4))
    y = graph.tensor(ROW, signature=(-1, 4))
    graph.nodes.append(Node("RELU", (x,), (y,)))
    assert load(graph.build([y])).outputs[0].type == float32(3, 4)


def test_inputs_and_constants_may_be_outputs() -> None:
    graph, y = chain("RELU")
    constant = graph.constant(np.ones(2, np.float32))
    model = load(graph.build([graph.inputs[0], y, constant]))
    results = evaluator.run(model, [X])
    assert [r.tolist() for r in results] == [X.tolist(), np.maximum(X, 0).tolist(), [1, 1]]


def test_a_tensor_written_twice_has_the_last_value() -> None:
    graph, y = chain("RELU")
    graph.nodes.append(Node("TANH", (y,), (y,)))
    file = graph.build([y])
    np.testing.assert_allclose(evaluator.run(load(file), [X])[0], litert_run(file, [X])[0], atol=1e-6)


def test_shared_constants_stay_one_operand() -> None:
    graph = Graph()
    x, c = graph.input(ROW), graph.constant(np.ones(4, np.float32))
    (y,) = graph.add("ADD", [x, c], [ROW])
    (z,) = graph.add("MUL", [y, c], [ROW])
    operations = load(graph.build([z])).operations
    assert operations[0].inputs[1] is operations[1].inputs[1]


def test_empty_constants() -> None:
    graph = Graph()
    empty = graph.constant(np.empty((0, 4), np.float32))
    (y,) = graph.add("CONCATENATION", [graph.input(ROW), empty], [ROW], {"axis": 0})
    assert evaluator.run(load(graph.build([y])), [X])[0].tolist() == X.tolist()


def test_everything_unsupported_is_listed_at_once() -> None:
    graph, y = chain("RELU", "STABLEHLO_SORT", "TANH", "Sinh")
    plain = TensorType(DType.INT8, (1, 4))
    q = graph.input(plain, "q")
    graph.add("ADD", [q, q], [plain], version=2)
    with pytest.raises(UnsupportedError) as caught:
        load(graph.build([y]))
    assert str(caught.value).split("; ") == [
        "model: operation 1, STABLEHLO_SORT v1: this operator is not supported",
        "model: operation 3, CUSTOM Sinh v1: this operator has no meaning, "
        "gpunn.load(custom=...) can give it one",
        "model: operation 4, ADD v2: input 0 (q) is INT8, "
        "only FLOAT32 or quantised UINT8, INT8 and INT16 are supported",
    ]


def test_operators_after_an_unsupported_one_raise_no_other_error() -> None:
    graph, y = chain("STABLEHLO_SORT")
    (z,) = graph.add("TRANSPOSE", [y, graph.constant(np.array([0, 0], np.int32))], [ROW])
    with pytest.raises(UnsupportedError, match="STABLEHLO_SORT"):
        load(graph.build([z]))


def test_numbers_of_a_type_without_name_are_refused() -> None:
    """The refusal names tensors and operators. gpunn has no such dtype; the builder only needs its name."""
    numbers = TensorType(cast("DType", SimpleNamespace(name="COMPLEX128")), (2,))
    with pytest.raises(UnsupportedError) as refusal:
        load(single_op("ABS", [numbers], [float32(2)]))
    assert "input t0 is COMPLEX128" in str(refusal.value)
    assert "operation 0, ABS v1: input 0 (t0) is COMPLEX128, which is not supported" in str(refusal.value)


def _no_outputs() -> bytes:
    return chain("RELU")[0].build([])


def _no_subgraph() -> bytes:
    return Graph().build([], subgraphs=0)


def _input_twice() -> bytes:
    graph, y = chain("RELU")
    graph.inputs.append(graph.inputs[0])
    return graph.build([y])


def _unwritten() -> bytes:
    graph, y = chain("RELU")
    graph.nodes.append(Node("RELU", (graph.tensor(ROW),), (y,)))
    return graph.build([y])


def _index_of_tensor() -> bytes:
    graph, y = chain("RELU")
    return graph.build([y + 7])


def _index_of_input() -> bytes:
    graph, y = chain("RELU")
    graph.nodes[0] = Node("RELU", (-2,), (y,))
    return graph.build([y])


def _outputs_of_operator() -> bytes:
    graph, y = chain("RELU")
    graph.nodes[0] = Node("RELU", (0,), (y, graph.tensor(ROW)))
    return graph.build([y])


def _wrong_output_type() -> bytes:
    return single_op("RELU", [ROW], [TensorType(DType.INT32, (1, 4))])


def _short_buffer() -> bytes:
    graph = Graph()
    short = graph.tensor(ROW, data=b"\0" * 12)
    return graph.build(graph.add("ADD", [graph.input(ROW), short], [ROW]))


def _rank() -> bytes:
    return single_op("RELU", [float32(*(1,) * 9)], [float32(*(1,) * 9)])


def _negative() -> bytes:
    return single_op("RELU", [float32(1, -4)], [float32(1, 4)])


WRONG: dict[str, tuple[Callable[[], bytes], str]] = {
    "no outputs": (_no_outputs, "model: has no outputs"),
    "no subgraph": (_no_subgraph, "model: has no subgraph"),
    "input twice": (_input_twice, "is an input of the model twice"),
    "unwritten tensor": (_unwritten, r"tensor 2 \(t2\), input 0 of operation 1, RELU, comes from nowhere"),
    "tensor index": (_index_of_tensor, "an output of the model is tensor 8, there are 2"),
    "input index": (_index_of_input, "an input of operation 0, RELU is tensor -2, there are 2"),
    "operator's outputs": (_outputs_of_operator, "operation 0, RELU: expected 1 outputs, got 2"),
    "output type": (_wrong_output_type, "output t1 is INT32, expected FLOAT32"),
    "buffer size": (_short_buffer, "takes 16 bytes, got 12"),
    "rank": (_rank, "expected up to 8 extents"),
    "negative extent": (_negative, "expected up to 8 extents from 0"),
}


@pytest.mark.parametrize(("make", "reason"), WRONG.values(), ids=WRONG)
def test_wrong_files_are_refused(make: Callable[[], bytes], reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        load(make())


def test_other_schema_versions_are_refused() -> None:
    file = bytearray(single_op("RELU", [ROW], [ROW]))
    table = tflite.Model.GetRootAs(file)._tab
    struct.pack_into("<I", file, table.Pos + table.Offset(4), 2)
    with pytest.raises(FormatError, match="expected schema version 3, got 2"):
        load(bytes(file))


def test_vectors_shared_too_often_are_refused() -> None:
    """A thousand operators that share one list of a thousand entries would need a million reads."""
    count = 1000
    graph = Graph()
    x = graph.input(ROW)
    for _ in range(count):
        graph.add("CONCATENATION", [x], [ROW])
    long = graph.build([x])
    model = tflite.Model.GetRootAs(long)
    file = bytearray(long + struct.pack(f"<I{count}i", count, *[0] * count))
    for index in range(count):
        table = model.Subgraphs(0).Operators(index)._tab
        field = table.Pos + table.Offset(6)
        struct.pack_into("<I", file, field, len(long) - field)
    with pytest.raises(FormatError, match="more entries than the file has room for"):
        load(bytes(file))


def test_operators_that_share_one_table_are_refused() -> None:
    """With four bytes for each operator, a small file could have thousands of operations."""
    count = 5000
    graph, y = chain("RELU")
    file = bytearray(graph.build([y]))
    subgraph = tflite.Model.GetRootAs(file).Subgraphs(0)
    old = subgraph.Operators(0)._tab
    vtable = old.Pos - struct.unpack_from("<i", file, old.Pos)[0]
    size = struct.unpack_from("<H", file, vtable + 2)[0]
    table = bytearray(file[old.Pos : old.Pos + size])
    start = len(file)
    position = start + 4 + 4 * count
    struct.pack_into("<i", table, 0, position - vtable)
    for field, value in ((6, size), (8, size + 8)):
        struct.pack_into("<I", table, old.Offset(field), value - old.Offset(field))
    file += struct.pack("<I", count)
    file += b"".join(struct.pack("<I", position - (start + 4 + 4 * i)) for i in range(count))
    file += table + struct.pack("<IiIi", 1, graph.inputs[0], 1, y)
    field = subgraph._tab.Pos + subgraph._tab.Offset(10)
    struct.pack_into("<I", file, field, start - field)
    with pytest.raises(FormatError, match="5000 entries do not fit"):
        load(bytes(file))
    struct.pack_into("<I", file, start, 500)
    struct.pack_into("<I", file, field, start - field)
    assert len(load(bytes(file)).operations) == 500


LABELS = ["cat", "dog", "bird", "fish"]


def packed(*members: tuple[str, str], model: bytes | None = None) -> bytes:
    """Return a model followed by a zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members:
            archive.writestr(name, text)
    return (model or single_op("RELU", [ROW], [ROW])) + stream.getvalue()


@pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\r\n"])
def test_labels_come_from_the_zip_after_the_model(ending: str) -> None:
    file = packed(("notes.txt", "one\ntwo"), ("labels.txt", "\n".join(LABELS) + ending))
    assert load(file).labels == tuple(LABELS)


def test_every_class_needs_a_label() -> None:
    assert load(packed(("labels.txt", "\n".join(LABELS[:3])))).labels == ()
    assert load(packed(("labels.csv", "\n".join(LABELS)))).labels == ()
    assert load(single_op("RELU", [ROW], [ROW])).labels == ()


def test_labels_cannot_control_a_terminal() -> None:
    assert load(packed(("labels.txt", "a\x1b[0m\n b \nc\nd"))).labels == ("a\ufffd[0m", "b", "c", "d")


def test_a_damaged_zip_is_ignored() -> None:
    file = bytearray(packed(("labels.txt", "\n".join(LABELS))))
    start = file.index(b"PK\3\4")
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(file)
        for position in rng.integers(start, len(file), 3):
            damaged[position] = rng.integers(256)
        assert len(load(bytes(damaged)).labels) in (0, 4)


def test_a_zip_bomb_is_not_decompressed() -> None:
    assert load(packed(("labels.txt", "a\n" * (8 << 20)))).labels == ()
