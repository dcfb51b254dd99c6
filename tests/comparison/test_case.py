"""A saved layer is the same layer after it is read again; damaged cases are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn import vision
from gpunn.comparison.case import load_case, save_case, save_layer
from gpunn.comparison.inputs import Sample, random_source
from gpunn.passes import optimise
from gpunn.types import DType, TensorType, float32
from tests.resources import shared


def sample_of(model: gpunn.Model) -> Sample:
    return next(random_source(model).samples)


@pytest.mark.parametrize("quantised", [False, True])
def test_every_layer_is_read_as_saved(quantised: bool, tmp_path: Path) -> None:
    path = shared("models/tflite/cifar10_resnet8_int8.tflite") if quantised else vision.default_model()
    model = gpunn.load(path)
    sample = sample_of(model)
    for index, operation in enumerate(optimise(model).operations):
        case = tmp_path / f"{index}.npz"
        save_layer(model, index, sample, case)
        again, given = load_case(case)
        (found,) = again.operations
        assert (found.op, found.origin, found.attrs) == (operation.op, operation.origin, operation.attrs)
        assert [o and o.type for o in found.inputs] == [o and o.type for o in operation.inputs]
        assert [o.type for o in found.outputs] == [o.type for o in operation.outputs]
        with again.compile(backend="cpu") as compiled, np.load(case) as stored:
            result = compiled(*given.arrays)
            np.testing.assert_allclose(result, stored["out0"], rtol=1e-4, atol=1e-4)


def test_case_is_compared_like_a_model(backend: str, tmp_path: Path) -> None:
    model = gpunn.load(vision.default_model())
    case = tmp_path / "case.npz"
    found = gpunn.compare(model, 1, ["cpu"], case=(2, case))
    assert found.ok
    again = gpunn.compare(case, backends=[backend], per_layer=True)
    assert again.ok
    assert again.inputs.samples == 1
    (layer,) = again.layers
    assert layer.op == optimise(model).operations[2].op


def test_layers_that_cannot_be_saved_are_refused(tmp_path: Path) -> None:
    model = gpunn.load(vision.default_model())
    count = len(optimise(model).operations)
    with pytest.raises(gpunn.ModelError, match=f"has layers 0 to {count - 1}, got {count}"):
        save_layer(model, count, sample_of(model), tmp_path / "case.npz")
    strings = gpunn.Model("strings")
    x = strings.input("x", TensorType(DType.STRING, (2,)))
    (y,) = strings.add("reshape", [x], {"shape": (1, 2)})
    strings.output(y)
    with pytest.raises(gpunn.UnsupportedError, match="works on strings"):
        save_case(tmp_path / "case.npz", strings.operations[0], {x: np.array([b"a", b"b"], object)})


def test_a_layer_that_cannot_be_saved_is_refused_before_a_backend_is_opened(tmp_path: Path) -> None:
    model = gpunn.load(vision.default_model())
    with pytest.raises(gpunn.ModelError, match=r"has layers 0 to .*, got 99"):
        gpunn.compare(model, 1, ["nobody"], case=(99, tmp_path / "case.npz"))


def small_case(path: Path) -> dict[str, Any]:
    """Return the arrays of a case of one addition, with its description as a dict."""
    model = gpunn.Model("sum")
    x = model.input("x", float32(1, 2))
    model.output(*model.add("add", [x, model.constant("c", np.float32([1, 2]))]))
    save_layer(model, 0, Sample((np.zeros((1, 2), np.float32),), ("x",)), path)
    with np.load(path) as stored:
        arrays = dict(stored)
    return {**arrays, "case": json.loads(arrays["case"].tobytes())}


CHANGES: dict[str, tuple[Any, ...]] = {
    "op": ("no_such_op", "conv2d", 5, None),
    "attributes": ({"x": 1}, [], None, {"activation": "nothing"}),
    "inputs": ([], None, [None] * 300, [{"name": "x"}], [{}], "ab"),
    "outputs": ([], [{}], [{"name": "y", "dtype": "float32", "shape": [9], "quantization": None}]),
    "format": ("gpunn case 9", None),
}


@pytest.mark.parametrize(("key", "value"), [(k, v) for k, values in CHANGES.items() for v in values])
def test_damaged_description(key: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "case.npz"
    arrays = small_case(path)
    text = json.dumps({**arrays["case"], key: value}).encode()
    np.savez(path, **{**arrays, "case": np.frombuffer(text, np.uint8)})
    with pytest.raises((gpunn.FormatError, gpunn.ModelError)):
        load_case(path)


@pytest.mark.parametrize("text", [b"", b"[", b"[" * 60_000, b"3", b"{}", b" " * 70_000])
def test_wrong_description(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "case.npz"
    np.savez(path, **{**small_case(path), "case": np.frombuffer(text, np.uint8)})
    with pytest.raises(gpunn.FormatError):
        load_case(path)


@pytest.mark.parametrize("missing", ["case", "in0", "in1"])
def test_missing_array(missing: str, tmp_path: Path) -> None:
    path = tmp_path / "case.npz"
    arrays = small_case(path)
    arrays["case"] = np.frombuffer(json.dumps(arrays["case"]).encode(), np.uint8)
    del arrays[missing]
    np.savez(path, **arrays)
    with pytest.raises(gpunn.FormatError):
        load_case(path)
