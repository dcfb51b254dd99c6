"""Files whose tables are sound but whose contents are wrong: gpunn raises only its own errors, soon.

A damaged byte mostly breaks a table, and the file is refused before its operators are read. These tests
unpack the tables, change options, operands, operators, types or values, and pack them again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import flatbuffers
import pytest
from flatbuffers import flexbuffers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpunn.errors import UnsupportedError
from gpunn.model import load
from gpunn.types import DType, float32
from tests.importers.tflite.case import prepare
from tests.importers.tflite.cases import CASES
from tests.importers.tflite.test_custom import SSD, ssd_file, ssd_inputs
from tests.importers.tflite.test_damage import SAMPLE
from tests.importers.tflite.test_demands import EXTREMES, runs_or_refuses
from tests.importers.tflite.test_resources import adding, branching, negating
from tests.importers.tflite.test_tables import filling, finding
from tests.tflite_builder import Graph

schema = pytest.importorskip("ai_edge_litert.schema_py_generated")  # its classes change and write tables

SEEDS = {case.operator: case for case in CASES}  # one for each operator
WHOLE = {  # also files of several subgraphs
    "": SAMPLE,
    "resources": branching(adding(), negating()),
    "tables": finding(DType.INT64, DType.STRING, [filling(DType.INT64, DType.STRING)]),
}
OPERATORS = sorted(v for v in vars(schema.BuiltinOperator).values() if isinstance(v, int))
SCALES = (0.0, -1.0, 1.0, 1e-45, 3.4e38, float("nan"), float("inf"))
VALUES = st.one_of(EXTREMES, st.sampled_from(SCALES), st.sampled_from((None, True, "a\nb")))
Draw = Callable[[st.SearchStrategy[Any]], Any]


@functools.cache
def seed(operator: str) -> bytes:
    return WHOLE[operator] if operator in WHOLE else prepare(SEEDS[operator]).file


def pick(draw: Draw, values: Any) -> Any:
    return values[draw(st.integers(0, len(values) - 1))]


def changed(draw: Draw, values: Any) -> list[Any]:
    """Return the list with an entry replaced, appended or removed."""
    found = [] if values is None else list(values)
    place = draw(st.integers(0, len(found)))
    return [*found[:place], *draw(st.lists(EXTREMES, max_size=1)), *found[place + draw(st.integers(0, 1)) :]]


def change_option(draw: Draw, graph: Any) -> None:
    options = pick(draw, graph.operators).builtinOptions
    fields = sorted(k for k, v in vars(options).items() if v is not None) if options else []
    if fields:
        name = pick(draw, fields)
        value = getattr(options, name)
        if isinstance(value, float):
            setattr(options, name, pick(draw, SCALES))
        else:
            many = not isinstance(value, (bool, int))
            setattr(options, name, changed(draw, value) if many else draw(EXTREMES) % 128)


def change_operands(draw: Draw, graph: Any) -> None:
    operator = pick(draw, graph.operators)
    numbers = st.lists(st.integers(-1, len(graph.tensors) - 1), max_size=6)
    setattr(operator, pick(draw, ("inputs", "inputs", "outputs")), draw(numbers))


def change_shape(draw: Draw, graph: Any) -> None:
    tensor = pick(draw, graph.tensors)
    tensor.shape = changed(draw, tensor.shape)


def change_type(draw: Draw, graph: Any) -> None:
    tensor = pick(draw, graph.tensors)
    tensor.type, tensor.isVariable = draw(st.integers(0, 18)), draw(st.booleans())


def change_scale(draw: Draw, graph: Any) -> None:
    quantization = schema.QuantizationParametersT()
    quantization.scale = [pick(draw, SCALES) for _ in range(draw(st.integers(0, 3)))]
    quantization.zeroPoint = draw(st.lists(EXTREMES, max_size=3))
    quantization.quantizedDimension = draw(EXTREMES)
    pick(draw, graph.tensors).quantization = quantization


CHANGES = change_option, change_operands, change_shape, change_type, change_scale


def damaged(draw: Draw, file: bytes) -> bytes:
    """Return the file with up to four changes, also of operators and bytes of constants."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(file, 0))
    for _ in range(draw(st.integers(1, 4))):
        pick(draw, CHANGES)(draw, pick(draw, model.subgraphs))
    if draw(st.integers(0, 3)) == 0:
        pick(draw, model.operatorCodes).builtinCode = pick(draw, OPERATORS)
    buffer = pick(draw, model.buffers)
    if buffer.data is not None and len(buffer.data) >= 4 and draw(st.booleans()):
        buffer.data = [*(draw(EXTREMES) & 0xFFFFFFFF).to_bytes(4, "little"), *list(buffer.data)[4:]]
    return packed(model)


def packed(model: Any) -> bytes:
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([*WHOLE, *sorted(SEEDS)]), st.data())
def test_wrong_contents(operator: str, data: st.DataObject) -> None:
    whole = seed(operator)
    try:
        file = damaged(data.draw, whole)
    except TypeError:  # the number does not fit its field
        return
    runs_or_refuses(file)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from([*SSD, "use_regular_nms", "a\nb"]), VALUES))
def test_wrong_custom_options(options: Mapping[str, Any]) -> None:
    boxes, scores, anchors = ssd_inputs(5, 4, 0)
    whole = ssd_file(SSD, (float32(*boxes.shape), float32(*scores.shape)), anchors)
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(whole, 0))
    model.subgraphs[0].operators[0].customOptions = list(flexbuffers.Dumps({**SSD, **options}))
    runs_or_refuses(packed(model))


def test_a_variable_of_a_type_without_name_is_no_output() -> None:
    graph = Graph()
    graph.input(float32(2))
    variable = graph.tensor(float32(2), is_variable=True)
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(graph.build([variable]), 0))
    model.subgraphs[0].tensors[variable].type = schema.TensorType.COMPLEX64
    with pytest.raises(UnsupportedError, match="output t1 is COMPLEX64"):
        load(packed(model))
