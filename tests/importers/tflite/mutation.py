"""Damaged .tflite files whose tables are sound: options, operands, operators, types or values are changed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from random import Random
from typing import Any

import flatbuffers
import pytest

from gpunn.types import DType
from tests.importers.tflite.case import prepare
from tests.importers.tflite.cases import CASES
from tests.importers.tflite.test_damage import SAMPLE
from tests.importers.tflite.test_demands import NUMBERS
from tests.importers.tflite.test_resources import adding, branching, negating
from tests.importers.tflite.test_tables import filling, finding

schema = pytest.importorskip("ai_edge_litert.schema_py_generated")  # its classes change and write tables

SEEDS = {case.operator: case for case in CASES}  # one for each operator
WHOLE = {  # also files of several subgraphs
    "": SAMPLE,
    "resources": branching(adding(), negating()),
    "tables": finding(DType.INT64, DType.STRING, [filling(DType.INT64, DType.STRING)]),
}
OPERATORS = sorted(v for v in vars(schema.BuiltinOperator).values() if isinstance(v, int))
SCALES = (0.0, -1.0, 1.0, 1e-45, 3.4e38, float("nan"), float("inf"))


@functools.cache
def seed(name: str) -> bytes:
    """Return a sound file: one of WHOLE, or one with an operator of SEEDS."""
    return WHOLE[name] if name in WHOLE else prepare(SEEDS[name]).file


def damaged_contents(file: bytes, random: Random) -> bytes:
    """Return the file with up to four changes, also of operators and bytes of constants.

    Raises TypeError or struct.error where a number does not fit its field.
    """
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(file, 0))
    for _ in range(random.randint(1, 4)):
        random.choice(_CHANGES)(random, random.choice(model.subgraphs))
    if random.randrange(4) == 0:
        random.choice(model.operatorCodes).builtinCode = random.choice(OPERATORS)
    buffer = random.choice(model.buffers)
    if buffer.data is not None and len(buffer.data) >= 4 and random.randrange(2):
        number = random.choice(NUMBERS) & 0xFFFFFFFF
        buffer.data = [*number.to_bytes(4, "little"), *list(buffer.data)[4:]]
    return packed(model)


def packed(model: Any) -> bytes:
    """Write a model of the schema's classes."""
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _numbers(random: Random, values: Sequence[Any], most: int) -> list[Any]:
    return [random.choice(values) for _ in range(random.randint(0, most))]


def _changed(random: Random, values: Any) -> list[Any]:
    """Return the list with an entry replaced, appended or removed."""
    found = [] if values is None else list(values)
    place = random.randint(0, len(found))
    return [*found[:place], *_numbers(random, NUMBERS, 1), *found[place + random.randrange(2) :]]


def _change_option(random: Random, graph: Any) -> None:
    options = random.choice(graph.operators).builtinOptions
    fields = sorted(k for k, v in vars(options).items() if v is not None) if options else []
    if fields:
        name = random.choice(fields)
        value = getattr(options, name)
        if isinstance(value, float):
            setattr(options, name, random.choice(SCALES))
        else:
            many = not isinstance(value, (bool, int))
            setattr(options, name, _changed(random, value) if many else random.choice(NUMBERS) % 128)


def _change_operands(random: Random, graph: Any) -> None:
    operator = random.choice(graph.operators)
    numbers = _numbers(random, range(-1, len(graph.tensors)), 6)
    setattr(operator, random.choice(("inputs", "inputs", "outputs")), numbers)


def _change_shape(random: Random, graph: Any) -> None:
    tensor = random.choice(graph.tensors)
    tensor.shape = _changed(random, tensor.shape)


def _change_type(random: Random, graph: Any) -> None:
    tensor = random.choice(graph.tensors)
    tensor.type, tensor.isVariable = random.randint(0, 18), bool(random.randrange(2))


def _change_scale(random: Random, graph: Any) -> None:
    quantization = schema.QuantizationParametersT()
    quantization.scale = _numbers(random, SCALES, 3)
    quantization.zeroPoint = _numbers(random, NUMBERS, 3)
    quantization.quantizedDimension = random.choice(NUMBERS)
    random.choice(graph.tensors).quantization = quantization


_CHANGES = _change_option, _change_operands, _change_shape, _change_type, _change_scale
