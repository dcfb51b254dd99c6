"""Gradients against PyTorch, an independent opinion: of layers, and of a small network with its loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.training.gradients import gradients
from gpunn.training.losses import cross_entropy
from gpunn.types import Array, float32
from tests import evaluator
from tests.training.cases import CASES, Case
from tests.training.differences import distinct, loss_of
from tests.training.pytorch import FUNCTIONS, NOT_COMPARED
from tests.training.pytorch.tools import activated
from tests.training.ties import TIES, numbers
from tests.training.variants import VARIANTS

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: training)")

ROUNDED = 1e-6  # constants of gradients are float32: 2^-24 each, relative to terms of a size of about 10


def tensor(value: Array | None) -> Any:
    """Return a tensor: of float32 numbers a float64 one, of integers int64. Real ones have gradients."""
    if value is None:
        return None
    dtype = {"f4": torch.float64, "f2": torch.float16, "b1": torch.bool}.get(value.dtype.str[1:], torch.int64)
    return torch.tensor(value, dtype=dtype, requires_grad=dtype.is_floating_point)


def by_torch(case: Case, weights: list[Array]) -> list[Array]:
    """Return the gradients of the sum of the results, each times a weight."""
    op, inputs, attrs = case
    leaves, attrs = [tensor(x) for x in inputs], dict(attrs)
    activation = attrs.pop("activation", None) if OPS[op].fusible else None
    results = FUNCTIONS[op](*leaves, **attrs)
    results = results if isinstance(results, tuple) else (results,)
    parts = [
        (activated(y, activation) * torch.tensor(w, dtype=torch.float64)).sum()
        for y, w in zip(results, weights, strict=True)
    ]
    real = [x for x in leaves if x is not None and x.requires_grad]
    found = torch.autograd.grad(sum(parts), real, materialize_grads=True)
    return [gradient.numpy() for gradient in found]


@pytest.mark.parametrize(
    "case", [c for c in (*CASES, *VARIANTS, *TIES) if c[0] not in NOT_COMPARED], ids=lambda case: case[0]
)
def test_gradients(case: Case) -> None:
    """In float64, also at ties and kinks."""
    model, fed = loss_of(*case)
    names = [f"x{k}" for k, x in enumerate(case[1]) if x is not None and x.dtype.kind == "f"]
    found = evaluator.run(gradients(model, model.outputs[0], names), fed)[1:]
    for gradient, expected in zip(found, by_torch(case, fed[len(names) :]), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=ROUNDED, atol=ROUNDED)


def test_the_forms_of_a_gru() -> None:
    """PyTorch's reset gate multiplies U h, Core ML's h: with a diagonal matrix U both are the same."""
    x, r, h = (distinct(k, *s, low=-1, high=1) for k, s in enumerate(((2, 3, 6), (6, 2), (2, 2))))
    r[4:] *= np.eye(2, dtype=np.float32)
    model, fed = loss_of("gru_recurrence", [x, r, h], {})
    found = evaluator.run(gradients(model, model.outputs[0], ["x0", "x2"]), fed)[1:]
    sums, weights, first = tensor(x), tensor(r), tensor(h)
    order, state, steps = [2, 3, 0, 1, 4, 5], first, []  # gates of a GRU in PyTorch: reset, update, candidate
    whole, none = torch.eye(6, dtype=torch.float64), torch.zeros(6, dtype=torch.float64)
    for part in sums.unbind(1):
        state = torch.gru_cell(part[:, order], state, whole, weights[order], none, none)
        steps.append(state)
    loss = (state * tensor(fed[3])).sum() + (torch.stack(steps, 1) * tensor(fed[4])).sum()
    for gradient, expected in zip(found, torch.autograd.grad(loss, [sums, first]), strict=True):
        np.testing.assert_allclose(gradient, expected.numpy(), rtol=ROUNDED, atol=ROUNDED)


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
    convolved = FUNCTIONS["conv2d"](torch.tensor(images), *leaves[:2], padding="same").relu()
    pooled = FUNCTIONS["max_pool2d"](convolved, size=(2, 2), stride=(2, 2)).reshape(4, 72)
    loss = torch.nn.functional.cross_entropy(pooled @ leaves[2].T + leaves[3], torch.tensor(chosen))
    loss.backward()
    np.testing.assert_allclose(got[0], loss.detach().numpy(), rtol=1e-5)
    for gradient, leaf in zip(got[1:], leaves, strict=True):
        # Sums of up to 144 products of a size of about 1, of float32.
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=0, atol=144 * 2.0**-23)
