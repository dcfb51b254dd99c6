"""Files whose tables are sound but whose contents are wrong: gpunn raises only its own errors, soon.

A damaged byte mostly breaks a table, and the file is refused before its operators are read. These tests
unpack the tables, change options, operands, operators, types or values, and pack them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from flatbuffers import flexbuffers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpunn.errors import UnsupportedError
from gpunn.model import load
from gpunn.types import float32
from tests.importers.tflite.mutation import SCALES, SEEDS, WHOLE, damaged_contents, packed, schema, seed
from tests.importers.tflite.test_custom import SSD, ssd_file, ssd_inputs
from tests.importers.tflite.test_demands import EXTREMES, runs_or_refuses
from tests.tflite_builder import Graph

VALUES = st.one_of(EXTREMES, st.sampled_from(SCALES), st.sampled_from((None, True, "a\nb")))


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([*WHOLE, *sorted(SEEDS)]), st.randoms(use_true_random=False))
def test_wrong_contents(operator: str, random: Random) -> None:
    whole = seed(operator)
    try:
        file = damaged_contents(whole, random)
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
    model.subgraphs[0].tensors[variable].type = schema.TensorType.COMPLEX128
    with pytest.raises(UnsupportedError, match="output t1 is COMPLEX128"):
        load(packed(model))
