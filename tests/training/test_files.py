"""A model of a file: its weights' gradients against a difference in their direction, and steps on a GPU."""

from __future__ import annotations

import numpy as np

import gpunn
from gpunn.backends.webgpu.device import open_device
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.planning.arenas import GROUPS
from gpunn.training.differentiate import differentiate
from gpunn.training.gradients import gradients
from gpunn.training.losses import cross_entropy
from gpunn.types import Array
from tests import evaluator
from tests.resources import ROOT

FILE = ROOT / "gpunn" / "data" / "cifar10_mobilenet.tflite"
STEP = 1e-6


def classifier() -> tuple[Model, Operand, list[Operand], list[Array]]:
    """Return the packaged classifier with its loss, its weights, and inputs: a picture and a target."""
    model = gpunn.load(str(FILE))
    (scores,) = model.outputs
    target = model.input("target", scores.type)
    loss = cross_entropy(model, scores, target)
    weights = [
        o for o in model.operands() if o.value is not None and o.type.size >= 10 and o.value.dtype.kind == "f"
    ]
    picture = np.random.default_rng(1).uniform(-1, 1, model.inputs[0].type.shape).astype(np.float32)
    return model, loss, weights, [picture, np.eye(10, dtype=np.float32)[[3]]]


def test_the_loss_falls_along_the_gradient() -> None:
    """The derivative in the direction of the gradient is its squared length: in float64 to 1e-4 of it."""
    model, loss, weights, inputs = classifier()
    assert len(weights) > 20
    values = [np.asarray(w.value, np.float64) for w in weights]
    found = gradients(model, loss, weights)
    fed = [np.asarray(x, np.float64) for x in inputs]
    _, *slopes = evaluator.run(found, [*fed, *values])
    squared = sum(float(np.sum(g * g)) for g in slopes)
    scale = STEP / np.sqrt(squared)
    ahead, behind = (
        evaluator.run(found, [*fed, *(v + sign * scale * g for v, g in zip(values, slopes, strict=True))])[0]
        for sign in (1, -1)
    )
    np.testing.assert_allclose((ahead - behind).item() / (2 * scale), squared, rtol=1e-4)


def test_steps_run_on_the_device(backend: str) -> None:
    """All in one submission each, and the loss is all that comes back."""
    model, loss, weights, inputs = classifier()
    step = differentiate(model, loss, weights)
    rate = step.graph.constant("rate", np.float32(0.01) * np.ones((), np.float32))
    for weight, gradient in zip(step.parameters, step.gradients, strict=True):
        (change,) = step.graph.add("mul", [gradient, rate])
        step.graph.update(weight, *step.graph.add("sub", [weight, change]))
    step.graph.output(step.loss)
    with Model.of(step.graph).compile(backend) as compiled:
        losses = [compiled(*inputs).item() for _ in range(3)]
        stats = compiled.stats
        if backend == "webgpu":
            assert {p.backend for p in compiled.placement} <= {"webgpu", "alias"}
            assert (stats.submits, stats.bytes_read_back) == (3, 3 * 4)
            arenas = 1.5 if open_device(None, False).properties.software else GROUPS  # each with all at most
            assert stats.peak_live_bytes <= stats.arena_bytes < arenas * stats.peak_live_bytes
    assert losses[0] > losses[1] > losses[2]
