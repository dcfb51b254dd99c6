"""The training that an .mlmodel file states for its network.

Meaning: NeuralNetwork.proto, NetworkUpdateParameters; constraints: Core ML's checks of updatable networks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from gpunn.arguments import is_number
from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.importers.common.names import shown
from gpunn.importers.coreml.file import Model, Network, decoded, model_of, pipeline_in, place_of
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.weights import weights
from gpunn.types import Array, Shape

MIN_VERSION = 4  # the first specification with updatable networks
LOSSES = {  # field of LossLayer: the loss that it is
    "categoricalCrossEntropyLossLayer": "cross_entropy",
    "meanSquaredErrorLossLayer": "mean_squared_error",
}
SHARES = {"sgdOptimizer": ("momentum",), "adamOptimizer": ("beta1", "beta2", "eps")}
UPDATABLE = ("convolution", "innerProduct")
PASSED = (*UPDATABLE, "uniDirectionalLSTM", "flatten", "pooling", "batchnorm")  # on the way back from a loss
ACTIVATIONS = ("ReLU", "sigmoid", "tanh")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that the file states, with the range or the set of values that it allows."""

    name: str
    default: float
    low: float | None = None
    high: float | None = None
    values: tuple[int, ...] = ()

    def chosen(self, value: float | None) -> float:
        """Return a value, or the default for None. Raises ModelError for one that the file does not allow."""
        found = self.default if value is None else value
        if not is_number(found):
            raise ModelError(f"{self.name} must be a number, got {found!r}")
        if self.values and found not in self.values:
            raise ModelError(f"{self.name} must be one of {[*self.values]}, got {found!r}")
        if self.low is not None and self.high is not None and not self.low <= found <= self.high:
            raise ModelError(f"{self.name} must be from {self.low:g} to {self.high:g}, got {found!r}")
        return found


@dataclass(frozen=True, slots=True, eq=False)
class UpdatableWeight:
    """Weights or biases of a layer, as the file stores them; `place` says which layer, for messages."""

    layer: int
    field: str
    place: str
    value: Array


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """A training as a file states it: of its network, or of the network in the last model of its pipeline.

    `result` is the place of the layer whose result `output` the loss is of. `target` names the training input
    with the targets; `classes`: it is the name of a class. `optimizer` is the field of Optimizer.
    """

    loss: str
    result: str
    output: str
    target: str
    classes: tuple[str | int, ...]
    optimizer: str
    parameters: Mapping[str, Parameter]
    shuffle: bool
    weights: tuple[UpdatableWeight, ...]


def update_of(data: bytes, name: str) -> Update:
    """Return what an .mlmodel file says of its training; `name` is the file's.

    Raises UnsupportedError if it is not updatable, and FormatError if what it says contradicts itself.
    """
    message, chunks = decoded(data, name)
    inputs = set[str]()
    network = _trained(message, model_of(message, name, chunks), inputs)
    return _Reading(network, network.message.updateParams, inputs).update()


def _trained(message: Message, model: Model, inputs: set[str]) -> Network:
    """Return the network that is trained: of a pipeline, that of its last model.

    Adds the names of training inputs.
    """
    stated = not isinstance(model, Network) or model.message.HasField("updateParams")
    if not message.isUpdatable or not stated:
        raise UnsupportedError(
            f"{model.name}: the model is not updatable: isUpdatable or updateParams is not set"
        )
    if message.specificationVersion < MIN_VERSION:
        model.fail(f"an updatable model has specification version {MIN_VERSION} or more")
    inputs.update(feature.name for feature in message.description.trainingInput)
    if isinstance(model, Network):
        return model
    *before, last = pipeline_in(message).models
    for part, made in zip(before, model.models, strict=False):
        if part.isUpdatable:
            made.fail("it is updatable: only the last model of a pipeline may be")
    return _trained(last, model.models[-1], inputs)


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """`inputs` are the names of training inputs."""

    network: Network
    stated: Message
    inputs: Set[str]

    def update(self) -> Update:
        loss, kind = self._loss()
        layers = self.network.message.layers
        makers = {output: k for k, layer in enumerate(layers) for output in layer.output}
        if loss.input not in makers:
            self.network.fail(f"no layer computes {shown(loss.input)}, which the loss is of")
        weights = tuple(self._weights())
        if not weights:
            self.network.fail("the model is updatable, but none of its layers is")
        self._check_way(loss.input, makers, kind == "cross_entropy")
        optimizer = self.stated.optimizer.WhichOneof("OptimizerType") or self.network.fail(
            "it has no optimizer"
        )
        best = self.network.description.predictedFeatureName
        classes = self.network.labels or () if loss.target == best else ()
        if loss.target not in self.inputs and not classes:
            self.network.fail(f"the target {shown(loss.target)} is no training input")
        parameters = {
            p.name: p for p in self._parameters(getattr(self.stated.optimizer, optimizer), optimizer)
        }
        return Update(
            kind,
            self.network.within(self._place(makers[loss.input])),
            loss.input,
            loss.target,
            classes,
            optimizer,
            parameters,
            self.stated.shuffle.defaultValue,
            weights,
        )

    def _loss(self) -> tuple[Message, str]:
        """Return the loss layer and its kind."""
        if len(self.stated.lossLayers) != 1:
            self.network.fail(f"it has {len(self.stated.lossLayers)} loss layers, expected 1")
        (layer,) = self.stated.lossLayers
        kind = layer.WhichOneof("LossLayerType")
        if kind is None:
            self.network.fail("the loss is neither cross entropy nor mean squared error")
        return getattr(layer, kind), LOSSES[kind]

    def _parameters(self, optimizer: Message, kind: str) -> Iterator[Parameter]:
        """Yield the parameters, whose defaults must be among the values that are allowed."""
        messages = [(name, getattr(optimizer, name), True) for name in ("learningRate", "miniBatchSize")]
        messages += [(name, getattr(optimizer, name), False) for name in SHARES[kind]]
        messages += [("epochs", self.stated.epochs, True), ("seed", self.stated.seed, False)]
        for name, message, positive in messages:
            allowed = message.WhichOneof("AllowedValues")
            low = high = None
            if allowed == "range":
                low, high = message.range.minValue, message.range.maxValue
            values = tuple(message.set.values) if allowed == "set" else ()
            found = Parameter(name, message.defaultValue, low, high, values)
            try:
                if found.chosen(None) <= 0 and positive:
                    self.network.fail(f"{name} must be positive, its default is {found.default!r}")
            except ModelError as error:
                self.network.fail(f"the default of {error}")
            yield found

    def _weights(self) -> Iterator[UpdatableWeight]:
        """Yield the weights of updatable layers."""
        for number, layer in enumerate(self.network.message.layers):
            kind, place = layer.WhichOneof("layer"), self._place(number)
            if not layer.isUpdatable:
                continue
            if kind not in UPDATABLE:
                self.network.fail(f"{place} is updatable: only {' and '.join(UPDATABLE)} may be")
            params = getattr(layer, kind)
            if kind == "convolution" and len(layer.input) != 1:
                raise UnsupportedError(f"{self.network.name}: {place}: gpunn updates no second input")
            for field, shape in _shapes(kind, params).items():
                value = self._stored(getattr(params, field), shape, place, field)
                yield UpdatableWeight(number, field, self.network.within(place), value)

    def _stored(self, message: Message, shape: Shape, place: str, field: str) -> Array:
        """Return weights that must be updatable and real numbers: float32 or float16."""
        if not message.isUpdatable:
            self.network.fail(f"{place} is updatable, its {field} are not")
        if message.HasField("quantization") or message.rawValue or message.int8RawValue:
            self.network.fail(f"{place}: updatable {field} must be float32 or float16, not quantised")
        try:
            return weights(message, math.prod(shape), shape[0], self.network.chunks).reshape(shape)
        except FormatError as error:
            self.network.fail(f"{place}: {field}: {error}")

    def _check_way(self, result: str, makers: Mapping[str, int], softmax: bool) -> None:
        """Refuse layers between updatable ones and the loss that Core ML does not go back through."""
        layers, moved = self.network.message.layers, set[str]()
        for layer in layers:
            if layer.isUpdatable or not moved.isdisjoint(layer.input):
                moved.update(layer.output)
        last = layers[makers[result]].WhichOneof("layer")
        if softmax and last != "softmax":
            self.network.fail(
                f"the cross entropy is of {shown(result)}, the result of {last}, not of softmax"
            )
        if result not in moved:
            self.network.fail("no updatable layer acts on the loss")
        wanted, seen = [*layers[makers[result]].input] if softmax else [result], set[str]()
        while wanted:
            name = wanted.pop()
            if name in seen or name not in moved:
                continue
            seen.add(name)
            layer = layers[makers[name]]
            self._check_passed(layer, makers[name])
            wanted += layer.input

    def _check_passed(self, layer: Message, number: int) -> None:
        kind = layer.WhichOneof("layer")
        function = layer.activation.WhichOneof("NonlinearityType") if kind == "activation" else None
        if kind not in PASSED and function not in ACTIVATIONS:
            what = f"the activation {function}" if function else f"the type {kind}"
            self.network.fail(
                f"{self._place(number)} is of {what}: between updatable layers and the loss may only be "
                f"{', '.join(PASSED)}, the activations {', '.join(ACTIVATIONS)}, and softmax right "
                "before the cross entropy"
            )

    def _place(self, number: int) -> str:
        layer = self.network.message.layers[number]
        return f"{place_of(number, layer, '')}, {layer.WhichOneof('layer')}"


def _shapes(kind: str, params: Message) -> dict[str, Shape]:
    """Return the shapes of the weights of a layer, by field."""
    outputs = int(params.outputChannels)
    if kind == "innerProduct":
        shape: Shape = (outputs, int(params.inputChannels))
    else:
        channels = outputs, int(params.kernelChannels)
        if params.isDeconvolution:
            channels = channels[1], outputs // (int(params.nGroups) or 1)
        shape = (*channels, *map(int, params.kernelSize or (3, 3)))
    return {"weights": shape, "bias": (outputs,)} if params.hasBias else {"weights": shape}
