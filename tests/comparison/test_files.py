"""Two files of one model: which tensors are compared, and the results."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from gpunn import vision
from gpunn.comparison.files import paired
from gpunn.types import float32
from tests.importers.tflite.test_control_computed import chosen
from tests.resources import shared
from tests.tflite_builder import Graph


def chain(names: list[str], factor: float = 2.0, width: int = 4) -> gpunn.Model:
    """Return a model of exp, mul, tanh; results have these names, the second is that before tanh."""
    model = gpunn.Model("".join(names))
    (x,) = model.add("exp", [model.input("x", float32(1, width))], names=names[:1])
    (x,) = model.add("mul", [x, model.constant("c", np.float32([factor]))], names=names[1:2])
    model.output(*model.add("tanh", [x], names=names[2:]))
    return model


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (["a", "b", "c"], [("a", "a", "name"), ("b", "b", "name"), ("c", "c", "name")]),
        (["r", "s", "t"], [("a", "r", "order"), ("b", "s", "order"), ("c", "t", "order")]),
        (["r", "b", "t"], [("a", "r", "order"), ("b", "b", "name"), ("c", "t", "order")]),
    ],
)
def test_pairs(other: list[str], expected: list[tuple[str, str, str]]) -> None:
    found = paired(chain(["a", "b", "c"]), chain(other))
    assert [(a.name, b.name, by) for a, b, by in found] == expected


def test_tensors_of_other_shapes_are_not_paired() -> None:
    assert paired(chain(["a", "b", "c"]), chain(["a", "b", "c"], width=5)) == []


def test_the_same_model_agrees_and_another_does_not() -> None:
    model = chain(["a", "b", "c"])
    same = gpunn.compare(model, 2, [], other=chain(["r", "s", "t"]), per_layer=True)
    assert same.ok
    assert same.pairs[0].outputs[0].metrics.identical
    assert [pair.metrics.identical for pair in same.layer_pairs] == [True, True]
    different = gpunn.compare(model, 2, ["cpu"], other=chain(["r", "s", "t"], factor=2.01), per_layer=True)
    assert [f.kind for f in different.findings] == ["output"]
    assert [pair.metrics.identical for pair in different.layer_pairs] == [True, False]


def test_outputs_of_computed_sizes() -> None:
    ours, theirs = gpunn.Model("whole"), Graph()
    ours.output(*ours.add("abs", [ours.input("x", float32(1, 3))]))
    other = theirs.build([chosen(theirs, theirs.input(float32(1, 3), "x"))])
    x = np.ones((1, 3), np.float32)
    assert gpunn.compare(ours, [x], ["cpu"], other=other).pairs[0].outputs[0].metrics.identical
    with pytest.raises(gpunn.ModelError, match=r"is float32\[1, 3\], model gives \[2\]"):
        gpunn.compare(ours, [x - np.float32([[0, 2, 0]])], ["cpu"], other=other)


def test_quantised_file_against_the_float_one() -> None:
    folder = "models/tflite/mobilenet_v1_0.25_128"
    model, photo = shared(f"{folder}.tflite"), shared("models/images/hot_dog.jpg")
    found = gpunn.compare(model, photo, [], other=shared(f"{folder}_quant.tflite"), per_layer=True)
    (pair,) = found.pairs
    assert pair.outputs[0].ok is None and found.ok
    assert len(found.layer_pairs) == 31
    assert {p.by for p in found.layer_pairs} == {"name"}
    assert all(p.metrics.cosine is not None and p.metrics.cosine > 0.9 for p in found.layer_pairs)
    assert pair.agreement is not None and pair.agreement.top_k >= 0.6


def test_models_that_cannot_be_the_same() -> None:
    with pytest.raises(gpunn.ModelError, match=r"the inputs of abc are float32\[1, 4\]"):
        gpunn.compare(vision.default_model(), 1, [], other=chain(["a", "b", "c"]))
