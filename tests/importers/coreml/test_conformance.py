"""Every conformance case whose layers have rules gives the stored answer, on both backends."""

from __future__ import annotations

import pytest

import gpunn
from gpunn.importers.coreml.reader import LAYER_TYPES
from tests.importers.coreml.conformance import cases, compared, covered, loader, run

GROUPS = (*sorted(LAYER_TYPES), "classifier", "composite", "optional_input", "preprocessing", "regressor")


@pytest.mark.parametrize("group", GROUPS)
def test_cases(group: str, backend: str) -> None:
    failed, passed = [], 0
    for case in cases(group):
        if not covered(case):
            continue
        if case.meta["rule"] == "expect_error":  # a custom layer of which nobody says what it is
            with pytest.raises(gpunn.UnsupportedError, match="its class 'MyCustomLayer' has no meaning"):
                gpunn.load(case.model_bytes)
            passed += 1
            continue
        try:
            right, why = compared(case, run(case, backend))
        except (gpunn.UnsupportedError, gpunn.FormatError, gpunn.ModelError) as error:
            right, why = False, str(error)
        passed += right
        if not right:
            failed.append(f"{case.id}: {why}")
    assert not failed
    assert passed


@pytest.mark.parametrize("group", ["custom", "loop", "composite"])
def test_layers_without_a_rule_are_refused_by_name(group: str) -> None:
    for case in cases(group):
        missing = set(case.meta["layers"]) - set(LAYER_TYPES)
        if missing:
            with pytest.raises(gpunn.UnsupportedError) as caught:
                gpunn.load(case.model_bytes)
            assert any(name in str(caught.value) for name in missing)  # others lie in bodies of loops


def test_other_encodings_and_other_models() -> None:
    """Legal encodings are read alike; what is no network is refused, and the message says what it is."""
    for case in cases("wire"):
        if case.meta["rule"] != "expect_error":
            assert loader().compare(case, run(case, "cpu"))[0], case.id
            continue
        with pytest.raises(gpunn.GpunnError) as caught:
            gpunn.load(case.model_bytes)
        kind = case.meta["test"].removeprefix("wire.")
        assert kind in str(caught.value) or kind in ("empty", "truncated"), str(caught.value)


def test_every_layer_type_of_the_table_is_in_the_format() -> None:
    from gpunn.importers.coreml.messages import model_class

    made = model_class()().neuralNetwork.layers.add()
    types = {field.name for field in made.DESCRIPTOR.oneofs_by_name["layer"].fields}
    assert set(LAYER_TYPES) <= types
    assert len(types) == 158
