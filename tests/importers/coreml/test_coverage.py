"""docs/coreml.md and README.md say what is so."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from gpunn.importers.coreml.messages import model_class
from gpunn.importers.coreml.reader import LAYER_TYPES
from tests.importers.coreml.conformance import loader
from tests.importers.coreml.coverage import PAGES, UNTESTED, Coverage, cases, covered, layer_types, refreshed
from tests.importers.coreml.test_conformance import GROUPS
from tests.importers.coreml.test_models import MODELS
from tests.resources import shared

ROWS = dict(re.findall(r"^\| (\w+) \| (.*?) \| \d+ \|", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE))

FULLY = ("GPU", "GPU, no bytes move", "no bytes move")


@cache
def coverage() -> Coverage:
    """What the conformance cases say."""
    return covered(cases())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_is_that_of_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "layer types -->" in text
    assert refreshed(text, coverage()) == text, "python -m tests.importers.coreml.coverage rewrites the pages"


def test_every_layer_type_has_a_line() -> None:
    assert list(ROWS) == layer_types()
    assert len(ROWS) == 158


def test_every_case_is_run() -> None:
    assert {case.layer for case in loader().load()} <= {*GROUPS, *UNTESTED, *(set(ROWS) - LAYER_TYPES)}


@pytest.mark.parametrize("name", MODELS)
def test_layers_of_image_models_run_on_the_gpu(name: str) -> None:
    data = shared(f"models/coreml/{name}.mlmodel").read_bytes()
    layers = model_class().FromString(data).neuralNetworkClassifier.layers
    kinds = {layer.WhichOneof("layer") for layer in layers}
    assert kinds
    assert {kind: ROWS[kind] for kind in kinds if ROWS[kind] not in FULLY} == {}


def test_nine_in_ten_layer_types_run_on_the_gpu() -> None:
    on_gpu = [where for where in ROWS.values() if "CPU" not in where and where != "refused"]
    assert len(on_gpu) >= 0.9 * len(ROWS)
