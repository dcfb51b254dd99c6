"""The conformance cases of ../shared, run by gpunn."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

import gpunn
from gpunn.importers.coreml.reader import LAYER_TYPES
from tests.resources import shared

FOLDER = "conformance/coreml"
Case = Any  # Case of load_cases.py: id layer meta model_bytes inputs expected


@cache
def loader() -> ModuleType:
    """load_cases.py of the conformance material."""
    spec = importlib.util.spec_from_file_location("load_cases", shared(f"{FOLDER}/load_cases.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases(group: str) -> Iterator[Case]:
    """The cases of a group, which is mostly a layer type."""
    shared(f"{FOLDER}/cases/{group}.zip")
    yield from loader().load(group)


def compared(case: Case, got: dict[str, Any]) -> tuple[bool, str]:
    """load_cases.compare(), with the moments of the normal distribution where a case has but two of them."""
    moments = {
        key: np.array([1, 0, 1, 0, 3]) if key.endswith("__moments") and value.size < 5 else value
        for key, value in case.expected.items()
    }
    return loader().compare(case._replace(expected=moments), got)


def covered(case: Case) -> bool:
    """Whether every layer of a case has a rule."""
    return set(case.meta["layers"]) <= set(LAYER_TYPES)


def prepared(case: Case) -> tuple[gpunn.Model, dict[str, Any]]:
    """The model of a case for the shapes of its inputs, and the inputs by name."""
    model = gpunn.load(case.model_bytes)
    inputs, shapes = {}, {}
    for operand in model.inputs:
        if operand.default is not None and operand.name not in case.inputs:
            continue
        x = np.asarray(case.inputs[operand.name], operand.type.dtype.numpy)
        if x.dtype == np.uint8:
            x = x.reshape(operand.type.shape)
        if x.shape != operand.type.shape:
            shapes[operand.name] = x.shape
        inputs[operand.name] = x
    return model.reshaped(shapes) if shapes else model, inputs


def run(case: Case, backend: str) -> dict[str, Any]:
    """What gpunn computes, in the form that load_cases.compare() wants."""
    model, inputs = prepared(case)
    with model.compile(backend) as compiled:
        found = compiled.run(inputs)
    if case.meta["rule"] not in ("classifier", "label"):
        return dict(found)
    (scores,) = found.values()
    label = model.labels[int(np.argmax(scores))]
    if case.meta["rule"] == "label":
        return dict.fromkeys(case.expected, label)
    return {"__label": label, "__probs": np.reshape(scores, -1)}
