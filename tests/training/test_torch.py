"""Gradients against PyTorch, an independent opinion: of layers, and of a small network with its loss."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.training.gradients import gradients
from gpunn.training.losses import cross_entropy
from gpunn.types import float32
from tests import evaluator
from tests.training.differences import loss_of
from tests.training.torch_layers import LAYERS, Layer, channels_last, convolution, functional, numbers, torch

ROUNDED = 1e-6  # constants of gradients are float32: 2^-24 each, relative to terms of a size of about 10


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer[0])
def test_layers(layer: Layer) -> None:
    """In float64, also at ties and kinks."""
    op, inputs, attrs, function = layer
    model, fed = loss_of(op, inputs, attrs)
    names = [f"x{k}" for k, x in enumerate(inputs) if x.dtype.kind == "f"]
    inputs = [x for x in inputs if x.dtype.kind == "f"]
    found = evaluator.run(gradients(model, model.outputs[0], names), fed)[1:]
    leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in inputs]
    results = function(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    weights = (torch.tensor(w, dtype=torch.float64) for w in fed[len(inputs) :])
    sum((y * w).sum() for y, w in zip(results, weights, strict=True)).backward()
    for gradient, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=ROUNDED, atol=ROUNDED)


def test_a_network(backend: str) -> None:
    """Two convolutions, pools, a fully connected layer and cross entropy, in float32."""
    model, weights = (
        Model(),
        [numbers(k, *s) / 8 for k, s in enumerate(((8, 3, 3, 3), (8,), (10, 72), (10,)))],
    )
    x, target = model.input("x", float32(4, 6, 6, 3)), model.input("target", float32(4, 10))
    w, b, v, c = (model.constant(f"w{k}", value) for k, value in enumerate(weights))
    (y,) = model.add("conv2d", [x, w, b], {"padding": "same", "activation": "relu"})
    (y,) = model.add("max_pool2d", [y], {"size": (2, 2), "stride": (2, 2)})
    (y,) = model.add("softmax", model.add("fully_connected", [y, v, c]))
    images, chosen = numbers(9, 4, 6, 6, 3), np.array([3, 1, 4, 1])
    found = gradients(model, cross_entropy(model, y, target), [w, b, v, c])
    with found.compile(backend) as compiled:
        got = compiled(images, np.eye(10, dtype=np.float32)[chosen], *weights)
    leaves = [torch.tensor(value, requires_grad=True) for value in weights]
    convolved = convolution(1, 1, 1, 1)(torch.tensor(images), *leaves[:2]).relu()
    pooled = channels_last(functional("max_pool2d", 2))(convolved).reshape(4, 72)
    loss = torch.nn.functional.cross_entropy(pooled @ leaves[2].T + leaves[3], torch.tensor(chosen))
    loss.backward()
    np.testing.assert_allclose(got[0], loss.detach().numpy(), rtol=1e-5)
    for gradient, leaf in zip(got[1:], leaves, strict=True):
        # Sums of up to 144 products of a size of about 1, of float32.
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=0, atol=144 * 2.0**-23)
