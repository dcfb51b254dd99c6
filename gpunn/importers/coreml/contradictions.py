"""Contradictions in .mlmodel files whose answers are defined all the same: warnings that say what counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from gpunn.graph.graph import Graph
from gpunn.importers.common.names import shown
from gpunn.importers.coreml.features import CHANNELS
from gpunn.importers.coreml.file import Model, Network, place_of
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.statements import BODIES

Check = Callable[[Message], Iterator[str]]  # yields what contradicts itself in the parameters of a layer

FORMS = ("floatValue", "float16Value", "rawValue", "int8RawValue")  # of weights
COLOURS = ("redBias", "greenBias", "blueBias")
FORGET_GATE = ("forgetGateWeightMatrix", "forgetGateRecursionMatrix", "forgetGateBiasVector")
PEEPHOLES = tuple(f"{gate}GatePeepholeVector" for gate in ("input", "forget", "output"))
LSTM_BIASES = tuple(f"{gate}BiasVector" for gate in ("inputGate", "forgetGate", "blockInput", "outputGate"))
GRU_BIASES = tuple(f"{gate}GateBiasVector" for gate in ("update", "reset", "output"))


def warnings_of(model: Model, made: Graph) -> tuple[str, ...]:
    """Return where a model contradicts itself, though its answer is defined; `made` is its graph."""
    return tuple(dict.fromkeys((*_of_model(model), *_of_classes(made))))


def _of_classes(made: Graph) -> Iterator[str]:
    """Yield what contradicts itself in the names of classes."""
    if made.classes is None:
        return
    names, output = made.classes.labels, shown(made.classes.scores)
    sizes = [o.type.size for o in made.outputs if o.name == made.classes.scores and not made.waits(o)]
    for size in sizes:
        if size % max(len(names), 1):
            yield f"output {output} has {size} scores, but {len(names)} classes have names: none is used"
    if len({*names}) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        yield f"several classes have the name {shown(str(twice))}: answers by name have the last one's score"


def _of_model(model: Model) -> Iterator[str]:
    if not isinstance(model, Network):
        for part in model.models:
            yield from _of_model(part)
        return
    for what in _of_preprocessing(model):
        yield model.within(what)
    yield from _of_layers(model.message.layers, model.within(""))


def _of_layers(layers: Sequence[Message], around: str) -> Iterator[str]:
    for number, layer in enumerate(layers):
        kind = layer.WhichOneof("layer")
        if kind not in CHECKS and kind not in BODIES:
            continue
        place, params = place_of(number, layer, around), getattr(layer, kind)
        for what in CHECKS[kind](params) if kind in CHECKS else ():
            yield f"{place}, {kind}: {what}"
        for body in BODIES.get(kind, ()):
            yield from _of_layers(getattr(params, body).layers, f"{place}, ")


def _stored(message: Message, *fields: str) -> bool:
    """Tell whether any of these weights of a message are stored."""
    return any(getattr(getattr(message, field), form) for field in fields for form in FORMS)


def _flag(flag: str, *fields: str) -> Check:
    """Return a check for weights that are stored, though a flag says that there are none."""

    def check(params: Message) -> Iterator[str]:
        if not getattr(params, flag) and _stored(params, *fields):
            yield f"{flag} is not set, so what is stored of {', '.join(fields)} is ignored"

    return check


def _batchnorm(params: Message) -> Iterator[str]:
    if params.computeMeanVar and _stored(params, "mean", "variance"):
        yield "computeMeanVar is set, so the stored mean and variance are ignored"
    if params.instanceNormalization and not params.computeMeanVar:
        yield "computeMeanVar is not set, so instanceNormalization is ignored"


def _lstm(params: Message) -> Iterator[str]:
    return _lstm_directions(params.params, [params.weightParams])


def _bidirectional_lstm(params: Message) -> Iterator[str]:
    return _lstm_directions(params.params, params.weightParams)


def _lstm_directions(options: Message, directions: Sequence[Message]) -> Iterator[str]:
    if options.forgetBias:
        yield "forgetBias is ignored, as in Core ML: files that set it store a bias with the 1 in it"
    unused = (
        (options.coupledInputAndForgetGate, "coupledInputAndForgetGate is set", FORGET_GATE),
        (not options.hasBiasVectors, "hasBiasVectors is not set", LSTM_BIASES),
        (not options.hasPeepholeVectors, "hasPeepholeVectors is not set", PEEPHOLES),
    )
    for ignored, why, fields in unused:
        if ignored and any(_stored(one, *fields) for one in directions):
            yield f"{why}, so what is stored of {', '.join(fields)} is ignored"


def _loop(params: Message) -> Iterator[str]:
    if params.conditionVar and not params.conditionNetwork.layers:
        yield f"no layer computes the condition {shown(params.conditionVar)}, which is ignored"


_BIAS = _flag("hasBias", "bias")
CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("convolution", "convolution3d", "innerProduct", "batchedMatmul"), _BIAS),
    **dict.fromkeys(("embedding", "embeddingND", "scale"), _BIAS),
    "batchnorm": _batchnorm,
    "simpleRecurrent": _flag("hasBiasVector", "biasVector"),
    "gru": _flag("hasBiasVectors", *GRU_BIASES),
    "uniDirectionalLSTM": _lstm,
    "biDirectionalLSTM": _bidirectional_lstm,
    "loop": _loop,
}


def _of_preprocessing(network: Network) -> Iterator[str]:
    """Yield what contradicts itself in the steps from photos to tensors."""
    inputs = {message.name: message.type for message in network.description.input}
    images = {name: [name] for name, type in inputs.items() if type.WhichOneof("Type") == "imageType"}
    scaled: dict[str, int] = {}
    for number, step in enumerate(network.message.preprocessing):
        where = f"preprocessing {number}"
        name, kind = step.featureName, step.WhichOneof("preprocessor")
        meant = images.get(name, ()) if name else [*images]
        if name and not meant:
            what = "no image" if name in inputs else "no input"
            yield f"{where} is for {shown(name)}, which is {what}: it is ignored"
        elif not meant:
            yield f"{where} is for an image, and no input is one: it is ignored"
        elif len(meant) > 1:
            yield f"{where} does not say for which image it is: it is done for all"
        if kind == "scaler":
            for image in meant:
                yield from _of_scaler(where, step.scaler, image, inputs[image].imageType)
                if image in scaled:
                    yield f"{where} scales {shown(image)} after preprocessing {scaled[image]}: both are done"
                scaled[image] = number


def _of_scaler(where: str, scaler: Message, name: str, image: Message) -> Iterator[str]:
    grey = CHANNELS.get(image.colorSpace) == 1
    ignored = [bias for bias in (COLOURS if grey else ("grayBias",)) if getattr(scaler, bias)]
    if scaler.channelScale == 0:
        yield f"{where} has the channelScale 0: nothing is left of {shown(name)} but the bias"
    if ignored:
        kind = "grey" if grey else "coloured"
        yield f"{where}: {', '.join(ignored)} is ignored, as {shown(name)} is {kind}"
