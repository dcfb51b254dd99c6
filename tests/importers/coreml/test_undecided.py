"""Files whose declared input shapes do not run, while others do."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from tests.importers.coreml.builder import Message, assign, constant, layer, linear, model


def sequence(window: int = 3) -> Message:
    """A specification of five axes that takes the greatest of a window of steps; it declares one step."""
    made = model((2,))
    layer(made, "permute", ["x"], ["steps last"]).axis.extend([3, 1, 2, 0])
    pool = layer(made, "pooling", ["steps last"], ["most"])
    pool.kernelSize.extend([1, window])
    pool.stride.extend([1, 1])
    pool.valid.SetInParent()
    layer(made, "permute", ["most"], ["y"]).axis.extend([3, 1, 2, 0])
    return made


def ranged(least: int, most: int) -> Message:
    """A specification of which the file leaves the extent open."""
    made = model((), exact=True)
    size = made.description.input[0].type.multiArrayType.shapeRange.sizeRanges.add()
    size.lowerBound, size.upperBound = least, most
    return made


def test_a_window_of_several_steps(backend: str) -> None:
    loaded = gpunn.load(sequence().SerializeToString())
    assert [entry.op for entry in loaded.pending] == ["input", "permute", "pooling", "permute", "output"]
    assert "needs inputs of other shapes than the declared ones" in loaded.pending[0].where
    x = np.array([1, 9, 4, 2, 3, 0, 7, 5, 2, 8], np.float32).reshape(5, 1, 2)
    expected = np.stack([x[k : k + 3].max(0) for k in range(3)]).reshape(3, 1, 2, 1, 1)
    with loaded.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(x), expected)
        np.testing.assert_array_equal(compiled(x[1:].astype(np.float64)), expected[1:])
        with pytest.raises(gpunn.ModelError, match="a window of"):
            compiled(np.zeros(2, np.float32))
        np.testing.assert_array_equal(compiled(x), expected)
    with loaded.compile(backend, shapes={"x": (5, 1, 2)}) as compiled:
        assert compiled.model.outputs[0].type.shape == (3, 1, 2, 1, 1)
        np.testing.assert_array_equal(compiled(x), expected)


def test_other_shapes_that_do_not_run_either() -> None:
    loaded = gpunn.load(sequence().SerializeToString())
    for shape in ((2, 1, 2), (2, 2)):
        with pytest.raises(gpunn.ModelError, match=r"a window of|cannot have the shape"):
            loaded.reshaped({"x": shape})


def test_a_range_whose_least_extent_does_not_run(backend: str) -> None:
    made = ranged(1, 20)
    constant(made, "five", [1, 2, 3, 4, 5])
    layer(made, "addBroadcastable", ["x", "five"], ["sum"])
    layer(made, "reshapeStatic", ["sum"], ["y"]).targetShape.extend([5])
    assert not gpunn.load(made.SerializeToString()).pending  # one element can be added to five
    made.neuralNetwork.layers[-1].reshapeStatic.targetShape[:] = [2, 5]
    del made.neuralNetwork.layers[1]
    made.neuralNetwork.layers[-1].input[0] = "x"
    loaded = gpunn.load(made.SerializeToString())
    with loaded.compile(backend) as compiled:
        assert compiled(np.arange(10, dtype=np.float32)).tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
        with pytest.raises(gpunn.ModelError, match=r"must have shape \[\?\], got \[2, 5\]"):
            compiled(np.zeros((2, 5), np.float32))


def test_a_loop_in_a_file_without_a_shape_that_runs_yet(backend: str) -> None:
    made = ranged(1, 20)
    layer(made, "reshapeStatic", ["x"], ["table"]).targetShape.extend([2, -1, 3])
    layer(made, "copy", ["table"], ["z"])
    loop = layer(made, "loop", [], [])
    loop.maxLoopIterations = 2
    assign(loop.bodyNetwork, "z", "z", 2)
    linear(made, "z", "y", 1)
    with gpunn.load(made.SerializeToString()).compile(backend) as compiled:
        assert compiled(np.ones(6, np.float32)).tolist() == [[[4] * 3]] * 2


def test_a_fixed_shape_that_does_not_run_is_refused() -> None:
    made = model((3,), exact=True)
    layer(made, "reshapeStatic").targetShape.extend([2, 2])
    with pytest.raises(gpunn.FormatError, match=r"3 elements of shape \[3\] have no shape \[2, 2\]"):
        gpunn.load(made.SerializeToString())


def _unknown_name(made: Message) -> None:
    made.neuralNetwork.layers[1].input[0] = "nothing"


def _no_weights(made: Message) -> None:
    made.neuralNetwork.layers[-1].output[0] = "z"
    params = layer(made, "innerProduct", ["z"], ["y"])
    params.inputChannels, params.outputChannels = 2, 1


HOPELESS = {
    "name": (_unknown_name, "input 'nothing' is computed by no layer before"),
    "weights": (_no_weights, "have 0 values, expected 2"),
}


@pytest.mark.parametrize("name", HOPELESS)
def test_an_error_that_no_shape_heals_is_raised_at_once(name: str) -> None:
    change, message = HOPELESS[name]
    made = sequence()
    change(made)
    with pytest.raises(gpunn.FormatError, match=message):
        gpunn.load(made.SerializeToString())
