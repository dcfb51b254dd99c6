"""Models and compilations as text, as copies and as pickles; events that are awaited."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.types import float32
from tests.tflite_builder import single_op

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
    "deepcopy": copy.deepcopy,
}
copied = pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)


def hand_made() -> gpunn.Model:
    """y = relu(x) + state; the next state is y."""
    model = gpunn.Model("made")
    x, state = model.input("x", float32(1, 2), open=[0]), model.variable("state", float32(1, 2))
    (positive,) = model.add("relu", [x], names=["positive"])
    (y,) = model.add("add", [positive, state], names=["y"])
    model.update(state, y)
    model.output(y)
    return model


@copied
def test_a_hand_made_model(again: Callable[[Any], Any]) -> None:
    made = again(hand_made())
    with made.compile("cpu") as compiled:
        for total in (1, 2):
            np.testing.assert_array_equal(compiled(np.float32([[1, -1]])), [[total, 0]])
    assert made.inputs[0].open == hand_made().inputs[0].open


@copied
def test_a_loaded_model_in_another_shape(again: Callable[[Any], Any]) -> None:
    """Its RESHAPE follows the batch, which the file alone tells."""
    data = single_op("RESHAPE", [float32(1, 2, 3), np.array([1, 6], np.int32)], [float32(1, 6)])
    model = gpunn.load(data)
    name = model.inputs[0].name
    four = again(model.reshaped({name: (4, 2, 3)}))
    assert four.outputs[0].type.shape == (4, 6)
    assert four.reshaped({name: (5, 2, 3)}).outputs[0].type.shape == (5, 6)


@copied
def test_a_loaded_model_that_was_changed(again: Callable[[Any], Any]) -> None:
    model = gpunn.load(single_op("RELU", [float32(2)], [float32(2)]))
    model.output(*model.add("neg", model.outputs))
    model.name = "changed"
    made = again(model)
    assert made.name == "changed"
    with made.compile("cpu") as compiled:
        found = compiled(np.float32([3, -3]))
    assert [row.tolist() for row in found] == [[3, 0], [-3, 0]]


@copied
def test_a_compilation_is_its_recipe(again: Callable[[Any], Any], backend: str) -> None:
    x = np.float32([[1, 2]])
    with hand_made().compile(backend, "sustained-speed", relaxed=True) as compiled:
        compiled(x)
        with again(compiled) as other:
            assert (other.backend, other.device) == (compiled.backend, compiled.device)
            np.testing.assert_array_equal(other(x), [[1, 2]])  # the state before the first run
        np.testing.assert_array_equal(compiled(x), [[2, 4]])


def test_short_texts() -> None:
    model = hand_made()
    assert repr(model) == "<Model 'made': float32[?, 2] -> float32[1, 2], 2 operations>"
    with model.compile("cpu") as compiled:
        assert repr(compiled) == f"<Compilation of {model!r} on cpu, {compiled.device}>"
    assert repr(gpunn.Model()) == "<Model 'model': no input -> no output, 0 operations>"


def test_an_event_can_be_awaited(backend: str) -> None:
    async def twice(compiled: gpunn.Compilation) -> list[Any]:
        events = [compiled.submit(np.float32([[k, 0]])) for k in (1, 2)]
        return [await event for event in events]

    with hand_made().compile(backend) as compiled:
        first, second = asyncio.run(twice(compiled))
    assert (first.tolist(), second.tolist()) == ([[1, 0]], [[3, 0]])


def test_an_awaited_event_raises_what_the_run_raises() -> None:
    model = gpunn.Model()
    i = model.input("i", gpunn.TensorType(gpunn.DType.INT32, (1,)))
    model.output(*model.add("gather", [model.constant("x", np.zeros(2, np.float32)), i], {"axis": 0}))

    async def wait(compiled: gpunn.Compilation, index: int) -> Any:
        return await compiled.submit(np.int32([index]))

    with model.compile("cpu") as compiled:
        assert asyncio.run(wait(compiled, 1)).tolist() == [0]
        with pytest.raises(gpunn.ModelError):
            asyncio.run(wait(compiled, 2))
