"""Recurrent layers: every option, against the equations of the format's document."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest

import gpunn
from tests.importers.coreml.builder import Message, floats, layer, model
from tests.importers.coreml.conformance import cases, covered, loader, run
from tests.importers.coreml.recurrent_layers import (
    ACTIVATIONS,
    BATCH,
    DEPTH,
    GRU,
    LSTM,
    RNN,
    STEPS,
    UNITS,
    activate,
    affine,
    answers,
    assert_like,
    given,
    lstm_of,
    recurrent,
    sizes,
    state_of,
    steps_of,
    store,
    weights_for,
)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_simple_recurrent(kind: str, bias: bool, whole: bool, reverse: bool, backend: str) -> None:
    weights, inputs = weights_for("simpleRecurrent", RNN), given(1)
    made, params = recurrent("simpleRecurrent", 1, ("y", "h"))
    store(params, weights if bias else {k: v for k, v in weights.items() if k != "biasVector"})
    getattr(params.activation, kind).SetInParent()
    params.sequenceOutput, params.reverseInput, params.hasBiasVector = whole, reverse, bias
    found = answers(made, inputs, backend)
    h, expected = state_of(inputs, 1), []
    for x in steps_of(inputs, reverse):
        h = ACTIVATIONS[kind](affine(weights, "", x, h, bias))
        expected.append(h)
    assert_like(found["y"], np.array(expected) if whole else h, (STEPS if whole else 1, BATCH, UNITS))
    assert_like(found["h"], h, (1, BATCH, UNITS))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("kinds", [("sigmoid", "tanh"), ("sigmoidHard", "ReLU"), ("linear", "sigmoid")])
def test_gru(kinds: tuple[str, str], whole: bool, reverse: bool, backend: str) -> None:
    weights, inputs, bias = weights_for("gru", GRU), given(1), whole
    made, params = recurrent("gru", 1, ("y", "h"))
    store(params, weights)
    activate(params.activations, *kinds)
    params.sequenceOutput, params.reverseInput, params.hasBiasVectors = whole, reverse, bias
    found = answers(made, inputs, backend)
    f, g = (ACTIVATIONS[kind] for kind in kinds)
    h, expected = state_of(inputs, 1), []
    for x in steps_of(inputs, reverse):
        update = f(affine(weights, "updateGate", x, h, bias))
        reset = f(affine(weights, "resetGate", x, h, bias))
        h = (1 - update) * g(affine(weights, "outputGate", x, reset * h, bias)) + update * h
        expected.append(h)
    assert_like(found["y"], np.array(expected) if whole else h, (STEPS if whole else 1, BATCH, UNITS))
    assert_like(found["h"], h, (1, BATCH, UNITS))


LSTMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases": {"hasBiasVectors": True},
    "sequence": {"hasBiasVectors": True, "sequenceOutput": True},
    "backwards": {"reverseInput": True},
    "a sequence backwards": {"reverseInput": True, "sequenceOutput": True},
    "peepholes": {"hasPeepholeVectors": True, "sequenceOutput": True, "reverseInput": True},
    "coupled gates": {"coupledInputAndForgetGate": True, "hasBiasVectors": True},
    "coupled gates with peepholes": {"coupledInputAndForgetGate": True, "hasPeepholeVectors": True},
    "a clip": {"cellClipThreshold": 0.25, "hasPeepholeVectors": True, "sequenceOutput": True},
    "forgetBias": {"forgetBias": True, "hasBiasVectors": True},
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kinds", [("sigmoid", "tanh", "tanh"), ("sigmoidHard", "linear", "ReLU")])
@pytest.mark.parametrize("name", LSTMS)
def test_lstm(name: str, kinds: tuple[str, str, str], hardware: str) -> None:
    weights, inputs, options = weights_for("uniLSTM", LSTM), given(2), LSTMS[name]
    made, params = recurrent("uniDirectionalLSTM", 2, ("y", "h", "c"))
    store(params.weightParams, weights)
    activate(params.activations, *kinds)
    for option, value in options.items():
        setattr(params if option == "reverseInput" else params.params, option, value)
    found = answers(made, inputs, hardware)
    y, h, c = lstm_of(weights, inputs, kinds, options)
    whole = options.get("sequenceOutput", False)
    assert_like(found["y"], y if whole else h, (STEPS if whole else 1, BATCH, UNITS))
    assert_like(found["h"], h, (1, BATCH, UNITS))
    assert_like(found["c"], c, (1, BATCH, UNITS))


@pytest.mark.parametrize("states", [0, 4])
@pytest.mark.parametrize("name", [name for name in LSTMS if "backwards" not in name])
def test_bidirectional_lstm(name: str, states: int, hardware: str) -> None:
    options = {k: v for k, v in LSTMS[name].items() if k != "reverseInput"}
    inputs, directions = given(states), [weights_for("biLSTM", LSTM, seed) for seed in (1, 2)]
    outputs = ("y", "h", "c", "h_rev", "c_rev")[: 5 if states else 1]
    made, params = recurrent("biDirectionalLSTM", states, outputs)
    kinds = ("sigmoid", "tanh", "ReLU"), ("sigmoidHard", "linear", "tanh")
    activate(params.activationsForwardLSTM, *kinds[0])
    activate(params.activationsBackwardLSTM, *kinds[1])
    for weights in directions:
        store(params.weightParams.add(), weights)
    for option, value in options.items():
        setattr(params.params, option, value)
    found = answers(made, inputs, hardware)
    ahead = lstm_of(directions[0], inputs, kinds[0], options)
    back = lstm_of(directions[1], inputs, kinds[1], {**options, "reverseInput": True}, 3)
    whole = options.get("sequenceOutput", False)
    y = np.concatenate([ahead[0], back[0][::-1]] if whole else [ahead[1], back[1]], axis=-1)
    assert_like(found["y"], y, (STEPS if whole else 1, BATCH, 2 * UNITS))
    for title, expected in zip(outputs[1:], (*ahead[1:], *back[1:]), strict=False):
        assert_like(found[title], expected, (1, BATCH, UNITS))


def number(kind: str, **values: float) -> Callable[[float], float]:
    """What a simple recurrent layer of one unit gives for a number, by an activation of these parameters."""
    made = model((1,))
    params = layer(made, "simpleRecurrent")
    params.inputVectorSize = params.outputVectorSize = 1
    params.weightMatrix.floatValue.append(floats([1]))
    params.recursionMatrix.floatValue.append(floats([0]))
    getattr(params.activation, kind).SetInParent()
    for name, value in values.items():
        setattr(getattr(params.activation, kind), name, value)
    compiled = gpunn.load(made.SerializeToString()).compile("cpu")
    return lambda x: float(compiled(np.array([x], np.float32)).item())


def test_parameters_of_activations_that_are_not_set_have_defaults() -> None:
    assert number("linear")(7) == 7
    assert number("linear", alpha=2)(7) == 14
    assert number("linear", beta=3)(7) == 10
    assert [number("sigmoidHard")(x) for x in (-3, -2, 0, 3)] == pytest.approx([0, 0.1, 0.5, 1])
    assert number("sigmoidHard", alpha=0.125)(2) == 0.75
    assert number("scaledTanh")(0.5) == pytest.approx(np.tanh(0.5))
    assert number("scaledTanh", alpha=1.7159, beta=2 / 3)(3) == pytest.approx(1.7159 * np.tanh(2))


def test_sums_of_gates_are_limited() -> None:
    assert [number("linear")(x) for x in (49, 51, -60)] == [49, 50, -50]


def test_the_first_output_of_a_reversed_sequence_belongs_to_the_last_input(backend: str) -> None:
    """Each step doubles the state and adds the input: 3, 2 + 6, 1 + 16."""
    made = model((1,))
    params = layer(made, "simpleRecurrent")
    params.inputVectorSize = params.outputVectorSize = 1
    params.weightMatrix.floatValue.append(floats([1]))
    params.recursionMatrix.floatValue.append(floats([2]))
    params.activation.linear.SetInParent()
    params.sequenceOutput = params.reverseInput = True
    loaded = gpunn.load(made.SerializeToString())
    x = np.array([1, 2, 3], np.float32).reshape(3, 1, 1)
    with loaded.compile(backend, shapes={"x": x.shape}) as compiled:
        assert compiled(x).reshape(-1).tolist() == [3, 8, 17]


def test_a_state_without_a_batch_serves_for_all_rows(backend: str) -> None:
    weights, inputs = weights_for("gru", GRU), given()
    made = model((DEPTH,))
    state = made.description.input.add(name="s1").type
    state.isOptional = True
    state.multiArrayType.shape.append(UNITS)
    state.multiArrayType.floatDefaultValue = 0.5
    params = sizes(layer(made, "gru", ["x", "s1"], ["y", "h"]))
    store(params, weights)
    activate(params.activations, "linear", "linear")
    loaded = gpunn.load(made.SerializeToString())
    x = inputs["x"][..., 0, 0]
    with loaded.compile(backend, shapes={"x": x.shape}) as compiled:
        found = compiled.run({"x": x})["y"]
    h = np.full((BATCH, UNITS), 0.5)
    for step in x.astype(np.float64):
        update, reset = (affine(weights, gate, step, h, False) for gate in GRU[:2])
        h = (1 - update) * affine(weights, "outputGate", step, reset * h, False) + update * h
    assert_like(found, h, (1, BATCH, UNITS))


def test_weights_may_be_quantised(backend: str) -> None:
    """Scales belong to the units, and biases may be entries of a table."""
    weights, inputs = weights_for("simpleRecurrent", RNN), given()
    made, params = recurrent("simpleRecurrent")
    params.hasBiasVector = True
    params.activation.tanh.SetInParent()
    for name in ("weightMatrix", "recursionMatrix"):
        stored = np.clip(weights[name] * 200 + 128, 0, 255).astype(np.uint8)
        scale = np.linspace(0.001, 0.005, UNITS, dtype=np.float32)
        message = getattr(params, name)
        message.rawValue, message.quantization.numberOfBits = stored.tobytes(), 8
        message.quantization.linearQuantization.scale.extend(scale)
        message.quantization.linearQuantization.bias.append(-0.3)
        weights[name] = stored * scale[:, None] - np.float32(0.3)
    params.biasVector.rawValue = bytes([0b00011011, 0b01000000])
    params.biasVector.quantization.numberOfBits = 2
    params.biasVector.quantization.lookupTableQuantization.floatValue.extend([0.1, 0.2, 0.3, 0.4])
    weights["biasVector"] = np.float32([0.1, 0.2, 0.3, 0.4, 0.2])
    h = np.zeros((BATCH, UNITS))
    for x in steps_of(inputs, False):
        h = np.tanh(affine(weights, "", x, h, True))
    assert_like(answers(made, inputs, backend)["y"], h, (1, BATCH, UNITS))


def gru() -> tuple[Message, Message]:
    """A specification of a GRU with all that it needs, and its parameters."""
    made, params = recurrent("gru", 1, ("y", "h"))
    store(params, weights_for("gru", GRU))
    activate(params.activations, "sigmoid", "tanh")
    return made, params


def _other_activation(params: Message) -> None:
    params.activations[1].ELU.alpha = 1


DAMAGES: dict[str, tuple[Callable[[Message], object], str]] = {
    "depth": (lambda p: setattr(p, "inputVectorSize", 4), r"expected \[sequence, batch, 4, 1, 1\]"),
    "units": (lambda p: setattr(p, "outputVectorSize", 0), "for 0 units"),
    "counts": (
        lambda p: setattr(p, "outputVectorSize", 6),
        "updateGateWeightMatrix.* have 15 values, expected 18",
    ),
    "huge": (lambda p: setattr(p, "outputVectorSize", 2**62), "expected"),
    "bias": (
        lambda p: p.updateGateBiasVector.Clear() or setattr(p, "hasBiasVectors", True),
        "updateGateBiasVector",
    ),
    "few": (lambda p: p.activations.pop(), "has 1 activations, expected 2"),
    "none": (lambda p: p.activations[0].Clear(), "nothing is no activation of recurrent layers"),
    "other": (_other_activation, "ELU is no activation of recurrent layers"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_layers_that_contradict_themselves(name: str) -> None:
    change, message = DAMAGES[name]
    made, params = gru()
    gpunn.load(made.SerializeToString())
    change(params)
    with pytest.raises(gpunn.FormatError, match=message):
        gpunn.load(made.SerializeToString())


def test_states_directions_and_outputs_must_be_those_of_the_layer() -> None:
    made, _ = gru()
    made.description.input[1].type.multiArrayType.shape[1] = 3
    with pytest.raises(
        gpunn.FormatError, match=r"input 1: expected a state \[1, 2, 5, 1, 1\], got \[1, 3, 5, 1, 1\]"
    ):
        gpunn.load(made.SerializeToString())
    made, params = recurrent("biDirectionalLSTM")
    store(params.weightParams.add(), weights_for("biLSTM", LSTM))
    with pytest.raises(gpunn.FormatError, match="has weights for 1 directions, expected 2"):
        gpunn.load(made.SerializeToString())
    made, _ = gru()
    made.neuralNetwork.layers[0].output.append("c")
    with pytest.raises(gpunn.FormatError, match="expected 2 outputs, got 3"):
        gpunn.load(made.SerializeToString())


@pytest.mark.parametrize("group", ["uniDirectionalLSTM", "biDirectionalLSTM"])
def test_stored_cases_on_hardware(group: str, hardware: str) -> None:
    """Every tenth, as workgroups are larger there than in test_conformance.py if the adapter is software."""
    if hardware == "webgpu":
        some = islice((case for case in cases(group) if covered(case)), 0, None, 10)
        answered = {case.id: loader().compare(case, run(case, hardware)) for case in some}
        assert answered
        assert not {k: why for k, (right, why) in answered.items() if not right}
