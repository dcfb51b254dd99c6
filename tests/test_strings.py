"""String tensors: values that count as strings, and models of strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.strings import as_strings, held_bytes
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.harness import type_of


def strings(*values: Any) -> Array:
    """Return an array of bytes objects; numpy's own dtypes lose zeros at the end."""
    return as_strings(list(values), "the values")


def test_values_that_count_as_strings() -> None:
    for given, expected in (
        (["a", b"b\0", "\N{GREEK SMALL LETTER ALPHA}"], [b"a", b"b\0", b"\xce\xb1"]),
        (np.array(["a", "bc"]), [b"a", b"bc"]),
        (np.array([b"a", b"bc"]), [b"a", b"bc"]),
        (np.array(["a", b"bc"], object), [b"a", b"bc"]),
        ([["a", "b"], ["c", b""]], [[b"a", b"b"], [b"c", b""]]),
        ("word", b"word"),
        ([], []),
    ):
        found = as_strings(given, "x")
        assert found.dtype == object
        assert found.tolist() == expected
    assert type_of(as_strings("word", "x")) == TensorType(DType.STRING, ())


@pytest.mark.parametrize("wrong", [[1, 2], 2.0, [b"a", None], np.zeros(2), ["\ud800"], [["a"], ["b", "c"]]])
def test_other_values_are_refused(wrong: Any) -> None:
    with pytest.raises(ModelError, match="x must be strings: "):
        as_strings(wrong, "x")


def test_strings_have_numpy_s_dtype_object() -> None:
    assert DType.of(object) is DType.STRING
    assert DType.STRING.numpy == np.dtype(object)
    assert held_bytes(strings("a" * 1000, "")) > 1000
    assert held_bytes(np.zeros(3, np.int32)) == 12


def lookup() -> Model:
    """Return a model that looks up two of three words, compares them, and adds reals."""
    model = Model("words")
    words = model.constant("words", strings("one", "two\0", ""))
    picks, asked = (
        model.input("picks", TensorType(DType.INT32, (2,))),
        model.input("asked", TensorType(DType.STRING, (2,))),
    )
    x = model.input("x", float32(3))
    (found,) = model.add("gather", [words, picks])
    (flat,) = model.add("reshape", [found], {"shape": (2, 1)})
    (same,) = model.add("equal", [found, asked])
    (doubled,) = model.add("add", [x, x])
    model.output(flat, same, asked, words, doubled)
    return model


def test_a_model_of_strings_and_numbers(backend: str) -> None:
    picks, x = np.array([1, 2], np.int32), np.ones(3, np.float32)
    with lookup().compile(backend=backend) as compiled:
        reasons = {p.operation.op: p.reason for p in compiled.placement if p.backend == "cpu"}
        if backend == "webgpu":
            expected = dict.fromkeys(("gather", "equal"), "string tensors have no form on the GPU")
            assert reasons == expected
        for run in (compiled, lambda *xs: compiled.submit(*xs).result()):
            found, same, asked, words, doubled = run(picks, ["two\0", b"x"], x)
            assert found.tolist() == [[b"two\0"], [b""]]
            assert same.tolist() == [True, False]
            assert asked.tolist() == [b"two\0", b"x"]
            assert words.tolist() == [b"one", b"two\0", b""]
            assert doubled.tolist() == [2, 2, 2]
        with pytest.raises(ModelError, match="input 'asked' must be strings: got int"):
            compiled(picks, [1, 2], x)
        with pytest.raises(ModelError, match=r"input 'asked' must have shape \[2\], got \[1\]"):
            compiled(picks, ["a"], x)
        with pytest.raises(ModelError, match="input 'x' must be float32, got object"):
            compiled(picks, ["a", "b"], strings("a", "b", "c"))


def test_only_some_ops_take_strings() -> None:
    model = Model()
    text = model.input("text", TensorType(DType.STRING, (2, 2)))
    for op, attrs in (("add", {}), ("cast", {"dtype": "int32"}), ("pad", {"paddings": ((1, 1), (0, 0))})):
        with pytest.raises(ModelError, match=rf"{op}: takes no strings, input 0 is string\[2, 2\]"):
            model.add(op, [text, text][: 2 if op == "add" else 1], attrs)
    with pytest.raises(ModelError, match="activation relu needs a float tensor"):
        model.add("concat", [text, text], {"axis": 0, "activation": "relu"})
    with pytest.raises(ModelError, match="constant 'c' must be strings: got int"):
        model.constant("c", np.array([b"a", 1], object))
    with pytest.raises(ModelError, match=r"variable 'v' is string\[2\]: strings are not kept"):
        model.variable("v", TensorType(DType.STRING, (2,)))


def test_a_custom_op_may_take_strings() -> None:
    @gpunn.custom.op(lambda call: TensorType(DType.INT32, call.x.shape), strings=True)
    def length(x: Array) -> Array:
        return np.array([len(v) for v in x.reshape(-1)], np.int32).reshape(x.shape)

    model = Model()
    model.output(*model.add(length, [model.input("text", TensorType(DType.STRING, (2,)))]))
    with model.compile(backend="cpu") as compiled:
        assert compiled(["one", ""]).tolist() == [3, 0]
