"""Files that contradict themselves, though their answer is defined: model.warnings says where."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import gpunn
from tests.importers.coreml.builder import Message, constant, image_model, layer, model
from tests.importers.coreml.conformance import loader
from tests.importers.coreml.mutation import in_pipeline

RGB, GREY = 20, 10


def warnings_of(made: Message) -> tuple[str, ...]:
    return gpunn.load(made.SerializeToString()).warnings


def product(*, bias: bool, flag: bool) -> Message:
    made = model((2,), exact=True)
    params = layer(made, "batchedMatmul")
    params.weightMatrixFirstDimension = params.weightMatrixSecondDimension = 2
    params.weights.floatValue.append(np.ones(4, "<f4").tobytes())
    params.hasBias = flag
    if bias:
        params.bias.floatValue.append(np.ones(2, "<f4").tobytes())
    return made


def test_a_bias_without_its_flag() -> None:
    (warning,) = warnings_of(product(bias=True, flag=False))
    expected = "hasBias is not set, so what is stored of bias is ignored"
    assert warning == f"layer 0 'the batchedMatmul', batchedMatmul: {expected}"
    assert warnings_of(product(bias=True, flag=True)) == ()
    assert warnings_of(product(bias=False, flag=False)) == ()


def batchnorm(*, stored: bool, computed: bool, instance: bool) -> Message:
    made = model((2, 4, 4))
    params = layer(made, "batchnorm")
    params.channels, params.computeMeanVar, params.instanceNormalization = 2, computed, instance
    for name in ("gamma", "beta", *(("mean", "variance") if stored else ())):
        getattr(params, name).floatValue.append(np.ones(2, "<f4").tobytes())
    return made


def test_statistics_that_are_stored_and_computed() -> None:
    (warning,) = warnings_of(batchnorm(stored=True, computed=True, instance=True))
    assert "computeMeanVar is set, so the stored mean and variance are ignored" in warning
    (warning,) = warnings_of(batchnorm(stored=True, computed=False, instance=True))
    assert "computeMeanVar is not set, so instanceNormalization is ignored" in warning
    assert warnings_of(batchnorm(stored=False, computed=True, instance=True)) == ()
    assert warnings_of(batchnorm(stored=True, computed=False, instance=False)) == ()


def case_of(kind: str, fits: Callable[[Message], bool]) -> Message:
    """The file of a conformance case with a layer of a type that fits."""
    from gpunn.importers.coreml.messages import model_class

    for case in loader().load():
        if case.layer == kind:
            made = model_class().FromString(case.model_bytes)
            found = [getattr(la, kind) for la in made.neuralNetwork.layers if la.WhichOneof("layer") == kind]
            if found and all(map(fits, found)):
                return made
    raise AssertionError(f"no case of {kind} fits")


@pytest.mark.parametrize("kind", ["uniDirectionalLSTM", "biDirectionalLSTM"])
def test_options_of_an_lstm(kind: str) -> None:
    made = case_of(kind, lambda p: not p.params.forgetBias and p.params.hasBiasVectors)
    found = [getattr(la, kind) for la in made.neuralNetwork.layers if la.WhichOneof("layer") == kind]
    for params in found:
        params.params.coupledInputAndForgetGate = params.params.hasPeepholeVectors = False
    before = warnings_of(made)
    assert not any("forgetBias" in w or "hasBiasVectors" in w for w in before)
    for params in found:
        params.params.forgetBias = True
        params.params.hasBiasVectors = False
    text = "; ".join(warnings_of(made))
    assert "forgetBias is ignored, as in Core ML" in text
    assert "hasBiasVectors is not set, so what is stored of inputGateBiasVector" in text
    for params in found:
        params.params.coupledInputAndForgetGate = True
    assert "coupledInputAndForgetGate is set, so what is stored of forgetGate" in "; ".join(warnings_of(made))


@pytest.mark.parametrize(("kind", "flag"), [("gru", "hasBiasVectors"), ("simpleRecurrent", "hasBiasVector")])
def test_biases_of_recurrent_layers(kind: str, flag: str) -> None:
    made = case_of(kind, lambda p: getattr(p, flag))
    assert warnings_of(made) == ()
    for la in made.neuralNetwork.layers:
        if la.WhichOneof("layer") == kind:
            setattr(getattr(la, kind), flag, False)
    assert all(f"{flag} is not set, so what is stored of" in w for w in warnings_of(made))
    assert warnings_of(made)


def test_a_condition_that_nothing_computes() -> None:
    made = model((3,), exact=True)
    params = layer(made, "loop", [], [])
    params.maxLoopIterations, params.conditionVar = 2, "c"
    layer(params.bodyNetwork, "sin", ["x"], ["s"])
    layer(made, "sin")
    (warning,) = warnings_of(made)
    assert warning == "layer 0 'the loop', loop: no layer computes the condition 'c', which is ignored"


def test_layers_in_bodies_and_pipelines_are_named() -> None:
    made = model((2,), exact=True)
    constant(made, "c", [1])
    branch = layer(made, "branch", ["c"], [])
    inner = product(bias=True, flag=False).neuralNetwork.layers[0]
    branch.ifBranch.layers.append(inner)
    branch.elseBranch.layers.append(product(bias=False, flag=False).neuralNetwork.layers[0])
    (warning,) = warnings_of(made)
    assert warning.startswith("layer 1 'the branch', layer 0 'the batchedMatmul', batchedMatmul: hasBias")
    both = warnings_of(in_pipeline([product(bias=False, flag=False), made]))
    assert both == (f"model 1: {warning}",)


def scaled(color_space: int, **scaler: float) -> Message:
    made = image_model(color_space)
    params = made.neuralNetwork.preprocessing.add(featureName="x").scaler
    for name, value in {"channelScale": 1.0, **scaler}.items():
        setattr(params, name, value)
    return made


def test_biases_for_the_other_kind_of_image() -> None:
    assert warnings_of(scaled(RGB, redBias=1)) == warnings_of(scaled(GREY, grayBias=1)) == ()
    assert warnings_of(scaled(RGB, grayBias=1)) == (
        "preprocessing 0: grayBias is ignored, as 'x' is coloured",
    )
    found = warnings_of(scaled(GREY, redBias=1, blueBias=2))
    assert found == ("preprocessing 0: redBias, blueBias is ignored, as 'x' is grey",)


def test_a_scale_of_0() -> None:
    (warning,) = warnings_of(scaled(RGB, channelScale=0, redBias=1))
    assert warning == "preprocessing 0 has the channelScale 0: nothing is left of 'x' but the bias"


def test_two_scalers_for_an_image() -> None:
    made = scaled(RGB)
    made.neuralNetwork.preprocessing.add().scaler.channelScale = 2
    assert warnings_of(made) == ("preprocessing 1 scales 'x' after preprocessing 0: both are done",)


def test_preprocessing_for_what_is_no_image() -> None:
    made = model((3, 2, 2))
    layer(made, "sin")
    for name in ("x", "z", ""):
        made.neuralNetwork.preprocessing.add(featureName=name).scaler.channelScale = 2
    assert warnings_of(made) == (
        "preprocessing 0 is for 'x', which is no image: it is ignored",
        "preprocessing 1 is for 'z', which is no input: it is ignored",
        "preprocessing 2 is for an image, and no input is one: it is ignored",
    )


def test_preprocessing_for_several_images() -> None:
    made = image_model(RGB)
    made.description.input.add(name="other").type.imageType.CopyFrom(made.description.input[0].type.imageType)
    made.neuralNetwork.preprocessing.add().scaler.channelScale = 2
    (warning,) = warnings_of(made)
    assert warning == "preprocessing 0 does not say for which image it is: it is done for all"


@pytest.mark.parametrize(
    ("labels", "warned"),
    [
        (("a", "b", "c"), ""),
        (("a", "b"), "output 'y' has 3 scores, but 2 classes have names: none is used"),
        (("a", "b", "a"), "several classes have the name 'a': answers by name have the last one's score"),
    ],
)
def test_names_of_classes(labels: tuple[str, ...], warned: str) -> None:
    made = model((3,), exact=True, kind="neuralNetworkClassifier")
    network = made.neuralNetworkClassifier
    added = network.layers.add(name="the softmax", input=["x"], output=["y"])
    added.softmaxND.axis = -1
    network.stringClassLabels.vector.extend(labels)
    network.labelProbabilityLayerName = "y"
    assert warnings_of(made) == ((warned,) if warned else ())


def test_reshaped_models_have_the_same_warnings() -> None:
    made = product(bias=True, flag=False)
    loaded = gpunn.load(made.SerializeToString())
    assert loaded.warnings
    assert loaded.reshaped({"x": (5, 2)}).warnings == loaded.warnings
