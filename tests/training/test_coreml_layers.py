"""update() of deconvolutions, and through layers that are not updatable."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from tests.importers.coreml import builder
from tests.training.test_coreml_update import Message, loaded, stored, updatable, weighted


def deconvolution(groups: int) -> Message:
    """y = w x for each of two channels, spread over windows of 2 x 2; w are 0 to 7 a group."""
    made = builder.model((2, 1, 1))
    params = builder.layer(made, "convolution")
    params.isDeconvolution = True
    params.outputChannels, params.kernelChannels, params.nGroups = groups, 2, groups
    params.kernelSize.extend((2, 2))
    params.valid.SetInParent()
    weighted(made, params, weights=np.arange(8, dtype=np.float32))
    return updatable(made, "meanSquaredErrorLossLayer", size=1)


def test_a_deconvolution(backend: str) -> None:
    """The loss is the mean of (w0 x0 + w1 x1 - t)^2 over the four cells of a window."""
    x, t = np.array([[[[2]], [[1]]]], np.float32), np.array([[4, 8, 8, 8]], np.float32)
    updated = gpunn.update(loaded(deconvolution(1)), {"x": x, "wanted": t}, backend=backend)
    w = np.arange(8).reshape(2, 4)
    error = 2 * w[0] + w[1] - t[0]
    expected = w - 0.0625 * np.outer([2, 1], 2 / 4 * error)
    np.testing.assert_array_equal(stored(updated)[0].reshape(2, 4), expected)


def test_a_deconvolution_with_groups_is_refused() -> None:
    examples = {"x": np.ones((1, 2, 1, 1), np.float32), "wanted": np.ones((1, 8), np.float32)}
    with pytest.raises(gpunn.UnsupportedError, match="are computed with in another form"):
        gpunn.update(loaded(deconvolution(2)), examples, backend="cpu")


def test_updates_go_back_through_an_lstm(backend: str) -> None:
    """A step of the weight before a layer uniDirectionalLSTM, against a difference of the losses."""
    made = builder.model((1,))
    inner = builder.layer(made, "innerProduct", ["x"], ["z"])
    inner.inputChannels = inner.outputChannels = 1
    weighted(made, inner, weights=np.ones(1, np.float32))
    params = builder.layer(made, "uniDirectionalLSTM", ["z"], ["y", "h", "c"])
    params.inputVectorSize = params.outputVectorSize = 1
    for activation in ("sigmoid", "tanh", "tanh"):
        getattr(params.activations.add(), activation).SetInParent()
    for gate in ("inputGate", "forgetGate", "blockInput", "outputGate"):
        for kind in ("WeightMatrix", "RecursionMatrix"):
            half = builder.floats(np.full(1, 0.5, np.float32))
            getattr(params.weightParams, f"{gate}{kind}").floatValue.append(half)
    updatable(made, "meanSquaredErrorLossLayer", size=1)
    examples = {"x": np.ones((1, 1), np.float32), "wanted": np.full((1, 1), 0.25, np.float32)}

    def loss(w: float) -> float:
        c = np.tanh(w / 2) / (1 + np.exp(-w / 2))
        return float((np.tanh(c) / (1 + np.exp(-w / 2)) - 0.25) ** 2)

    (after,) = stored(gpunn.update(loaded(made), examples, backend=backend))
    slope = (loss(1 + 1e-4) - loss(1 - 1e-4)) / 2e-4
    np.testing.assert_allclose(after.reshape(-1), 1 - 0.0625 * slope, rtol=1e-6)
