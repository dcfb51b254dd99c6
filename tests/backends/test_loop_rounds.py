"""Loops whose rounds are recorded ahead as dispatches, against round by round and worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import float32
from tests.backends import test_loop_kernels as one_workgroup
from tests.backends.test_loop_kernels import agree, constant, looped, place_of, ran
from tests.ops.harness import limit_device, random


@pytest.fixture(autouse=True)
def _no_workgroup_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunn.backends.webgpu.loop_writer.MAX_WORK", 0)


test_recurrent_layers = one_workgroup.test_recurrent_layers
test_rounds = one_workgroup.test_rounds
test_state_that_changes_places = one_workgroup.test_state_that_changes_places
test_rows_are_put_into_a_list = one_workgroup.test_rows_are_put_into_a_list
test_elements_of_8_bits = one_workgroup.test_elements_of_8_bits
test_elements_of_16_and_64_bits = one_workgroup.test_elements_of_16_and_64_bits
test_relaxed_compilations = one_workgroup.test_relaxed_compilations


def heavy(body: Model, s: Sequence[Operand]) -> list[Operand]:
    weights = body.constant("w", np.full((2000, 2000), 0.001, np.float32))
    return list(body.add("fully_connected", [s[1], weights, None]))


def test_many_rounds_are_one_submission_with_the_bindings_of_two(gpu: str) -> None:
    x = np.ones((1, 2000), np.float32)
    bindings = []
    for rounds in (4, 7):
        (y,), compiled = ran(looped(rounds, [float32(1, 2000)], heavy), [x])
        assert place_of(compiled) == ("webgpu", "")
        assert compiled.stats.submits == 1
        assert compiled.stats.dispatches == rounds + 2, "with two copies of the state"
        bindings.append(compiled.stats.bind_groups)
        np.testing.assert_allclose(y, np.full_like(x, 2.0**rounds), rtol=1e-4)
    assert bindings[0] == bindings[1]


def test_what_takes_too_much_workgroup_memory(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight convolutions have shaders of their own, each with memory that invocations share."""
    monkeypatch.setattr("gpunn.backends.webgpu.loop_writer.MAX_WORK", 1 << 20)
    properties = open_device(None, False).properties
    limit_device(monkeypatch, limits={**properties.limits, "max-compute-workgroup-storage-size": 16_384})
    attrs = {"padding": "same"}
    activations = (None, "relu", "relu6", "relu1", "tanh", "logistic", "sign_bit", "hard_swish")

    def convolve(body: Model, s: Sequence[Operand]) -> list[Operand]:
        filter = body.constant("w", random(0, 4, 3, 3, 4))
        x = s[1]
        for name in activations:
            (x,) = body.add("conv2d", [x, filter], {**attrs, "activation": name})
        return [x]

    model = looped(2, [float32(1, 8, 8, 4)], convolve)
    agree(model, [random(1, 1, 8, 8, 4)], monkeypatch)
    _, compiled = ran(model, [random(1, 1, 8, 8, 4)])
    assert compiled.stats.dispatches == 2 * len(activations) + 2


def test_a_result_that_two_states_share(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """(a, b, c) -> (a + b, the same flat, b)."""

    def share(body: Model, s: Sequence[Operand]) -> list[Operand]:
        (total,) = body.add("add", [s[1], s[3]])
        (flat,) = body.add("reshape", [total], {"shape": (6,)})
        return [total, flat, s[1]]

    types = [float32(2, 3), float32(6), float32(2, 3)]
    a, b, c = inputs = [random(k, *t.shape) for k, t in enumerate(types)]
    found = agree(looped(3, types, share), inputs, monkeypatch)
    for _ in range(3):
        a, b, c = a + c, (a + c).reshape(6), a
    for y, z in zip(found, (a, b, c), strict=True):
        np.testing.assert_array_equal(y, z)


def test_too_many_dispatches_are_the_hosts(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunn.backends.webgpu.loop_rounds.MAX_DISPATCHES", 4)
    model = looped(5, [float32(3)], lambda body, s: body.add("add", [s[1], constant(body, 1, np.float32)]))
    (y,), compiled = ran(model, [np.zeros(3, np.float32)])
    assert y.tolist() == [5, 5, 5]
    assert place_of(compiled) == ("cpu", "the host runs each round: its rounds are 5 dispatches")
