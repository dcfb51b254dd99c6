"""Messages about operators that cannot run: they name every operator and stay short."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import UnsupportedError
from gpunn.importers.common.refusals import MAX_MESSAGE
from gpunn.model import load
from gpunn.types import DType, Quantization, TensorType, float32
from tests.tflite_builder import Graph

ROW = float32(1, 4)


def message(graph: Graph) -> str:
    with pytest.raises(UnsupportedError) as caught:
        load(graph.build([graph.inputs[0]]))
    assert len(str(caught.value)) <= MAX_MESSAGE
    return str(caught.value)


def test_equal_reasons_are_joined() -> None:
    graph = Graph()
    x = graph.input(ROW)
    for _ in range(5):
        graph.add("STABLEHLO_SORT", [x], [ROW])
    graph.add("DELEGATE", [x], [ROW])
    graph.add("DELEGATE", [x], [ROW])
    assert message(graph) == (
        "model: operation 0, STABLEHLO_SORT v1: this operator is not supported "
        "(also operation 1, operation 2 and 2 more); "
        "model: operation 5, DELEGATE v1: it stands for a delegate's own code, which no file holds "
        "(also operation 6)"
    )


def test_a_range_of_too_many_numbers_is_one_of_the_reasons() -> None:
    graph = Graph()
    x = graph.input(ROW)
    bounds = [graph.constant(np.array(n, np.int32)) for n in (0, 2**30, 1)]
    graph.add("RANGE", bounds, [TensorType(DType.INT32, (2**30,))])
    graph.add("STABLEHLO_SORT", [x], [ROW])
    assert message(graph) == (
        "model: operation 0, RANGE v1: 1073741824 numbers are too many, at most 4194304 are supported; "
        "model: operation 1, STABLEHLO_SORT v1: this operator is not supported"
    )


def test_messages_about_thousands_of_operators_are_short() -> None:
    graph = Graph()
    x = graph.input(ROW)
    for _ in range(3000):
        graph.add("STABLEHLO_SORT", [x], [ROW])
    assert (
        "STABLEHLO_SORT v1: this operator is not supported (also operation 1, operation 2 and 2997 more)"
        in message(graph)
    )


def test_long_messages_give_some_reasons_for_each_operator() -> None:
    graph = Graph()
    q = graph.input(TensorType(DType.INT8, (1, 4), Quantization((0.5,), (3,))), "q")
    for i in range(100):
        graph.add("ADD" if i % 2 else "MUL", [q, graph.input(ROW, f"x{i}")], [ROW])
    text = message(graph)
    assert "operation 0, MUL v1: input 1 (x0) is FLOAT32 among" in text
    assert "operation 3, ADD v1: input 1 (x3) is FLOAT32 among" in text
    assert "model: MUL v1: 48 other reasons" in text


@pytest.mark.parametrize(("count", "length", "fit"), [(90, 4, True), (3000, 30, False), (20, 1000, False)])
def test_every_operator_is_named_as_long_as_names_fit(count: int, length: int, fit: bool) -> None:
    graph = Graph()
    x = graph.input(ROW)
    names = [f"Op{i}".ljust(length, "x") for i in range(count)]
    for name in [*names, names[0]]:
        graph.add(name, [x], [ROW])
    text = message(graph)
    assert text.startswith(f"model: operation 0, CUSTOM {names[0][:900]}")
    listed = sum(f"CUSTOM {name} v1 (" in text for name in names)
    assert (listed == count) == fit
    if not fit:
        assert text.endswith(f"and {count - listed} more operators")
