"""Network and Pipeline: the models in an .mlmodel file, decoded into messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from gpunn.errors import FormatError
from gpunn.importers.common.names import shown
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.coreml.chunks import Chunks, without_chunks
from gpunn.importers.coreml.messages import Message, model_class

PIPELINES = {  # Model.proto: the kinds of pipelines, and the field that holds the pipeline itself
    "pipelineClassifier": "pipeline",
    "pipelineRegressor": "pipeline",
    "pipeline": "",
}
OTHER_MODELS = {  # Model.proto: the kinds of models that are not read, by number of their field
    300: "glmRegressor",
    301: "supportVectorRegressor",
    302: "treeEnsembleRegressor",
    304: "bayesianProbitRegressor",
    400: "glmClassifier",
    401: "supportVectorClassifier",
    402: "treeEnsembleClassifier",
    404: "kNearestNeighborsClassifier",
    501: "itemSimilarityRecommender",
    502: "mlProgram",
    555: "customModel",
    556: "linkedModel",
    560: "classConfidenceThresholding",
    600: "oneHotEncoder",
    601: "imputer",
    602: "featureVectorizer",
    603: "dictVectorizer",
    604: "scaler",
    606: "categoricalMapping",
    607: "normalizer",
    609: "arrayFeatureExtractor",
    610: "nonMaximumSuppression",
    900: "identity",
    2000: "textClassifier",
    2001: "wordTagger",
    2002: "visionFeaturePrint",
    2003: "soundAnalysisPreprocessing",
    2004: "gazetteer",
    2005: "wordEmbedding",
    2006: "audioFeaturePrint",
    3000: "serializedModel",
}
ADVICE = {  # what can be done about a kind of model
    "mlProgram": (
        ": gpunn does not read ML programs; from the original model, "
        "coremltools.convert(..., convert_to='neuralnetwork') makes a network"
    ),
}
FIRST_ND_LAYER = 600  # layer types from this field number on came with tensors of any rank
MAX_DEPTH = 16  # pipelines in pipelines


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Part:
    """A model in a file: all of it, or one in a pipeline.

    `file` is the file's name, `place` says where in the file the model is ("" for all of it), `description`
    has its inputs and outputs, `chunks` the large values of the file.
    """

    file: str
    place: str
    description: Message
    chunks: Chunks

    @property
    def name(self) -> str:
        """Return the names of the file and of the place in it."""
        return f"{self.file}: {self.place}" if self.place else self.file

    def within(self, what: str) -> str:
        """Return a statement that begins with the place in the file."""
        return f"{self.place}: {what}" if self.place else what

    def fail(self, what: str) -> NoReturn:
        """Raise FormatError naming the file and the place in it."""
        raise FormatError(f"{self.name}: {what}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Network(Part):
    """A neural network. `labels` names its classes, None if it is not a classifier."""

    message: Message
    labels: tuple[str | int, ...] | None = None

    @property
    def legacy(self) -> bool:
        """Tell whether all tensors have the five axes of the first versions of the format."""
        network = self.message
        if network.arrayInputShapeMapping or network.imageInputShapeMapping:
            return False
        return not any(
            field.number >= FIRST_ND_LAYER
            for layer in network.layers
            for field, _ in layer.ListFields()
            if field.containing_oneof is not None
        )

    @property
    def probabilities(self) -> str:
        """Return the tensor with the probabilities of the classes."""
        named: str = self.message.labelProbabilityLayerName
        if named or not self.message.layers:
            return named
        return next(iter(self.message.layers[-1].output), "")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pipeline(Part):
    """Models that run one after the other. Each reads inputs of the pipeline and outputs of those before."""

    models: tuple[Network | Pipeline, ...]


Model = Network | Pipeline


def decoded(data: bytes, name: str) -> tuple[Message, Chunks]:
    """Return the message in an .mlmodel file's bytes, and its large values; `name` is the file's.

    Raises FormatError.
    """
    rest, chunks = without_chunks(data)
    try:
        return model_class().FromString(rest), chunks
    except DecodeError as error:
        raise FormatError(f"{name}: is no complete Core ML model ({error})") from None


def model_of(message: Message, name: str, chunks: Chunks) -> Model:
    """Return the model in a file's message; `name` is the file's, `chunks` are its large values.

    Raises FormatError for a message that is no model, and UnsupportedError with all models in it that are
    neither neural networks nor pipelines.
    """
    refusals = Refusals(name)
    found = _model(message, name, (), refusals, chunks)
    if found is None or refusals:
        refusals.fail()
    return found


def _model(
    message: Message, file: str, places: Sequence[str], refusals: Refusals, chunks: Chunks
) -> Model | None:
    """Return a model; note it among the refusals and return None if it is of a kind that is not read."""
    kind = message.WhichOneof("Type")
    place = ", ".join(places)
    part = Part(file, place, message.description, chunks)
    if kind is None:
        number = next((f.field_number for f in UnknownFieldSet(message) if f.field_number in OTHER_MODELS), 0)
        if not number:
            part.fail("is a Core ML model of no known kind")
        other = OTHER_MODELS[number]
        refused = f"is a Core ML model of the kind {other}, not a neural network{ADVICE.get(other, '')}"
        refusals.add(part.within(refused))
        return None
    if kind not in PIPELINES:
        network = getattr(message, kind)
        labels = _labels(network) if kind == "neuralNetworkClassifier" else None
        return Network(file, place, message.description, chunks, network, labels)
    if len(places) == MAX_DEPTH:
        part.fail(f"is a pipeline in more than {MAX_DEPTH} others")
    pipeline = pipeline_in(message)
    if not pipeline.models:
        part.fail("is a pipeline without models")
    named = pipeline.names if len(pipeline.names) == len(pipeline.models) else [""] * len(pipeline.models)
    within = [f"model {k} {shown(n)}" if n else f"model {k}" for k, n in enumerate(named)]
    pairs = zip(pipeline.models, within, strict=True)
    models = [_model(inner, file, (*places, w), refusals, chunks) for inner, w in pairs]
    return Pipeline(file, place, message.description, chunks, tuple(m for m in models if m is not None))


def pipeline_in(message: Message) -> Message:
    """Return the pipeline in the message of a model that is one."""
    kind = message.WhichOneof("Type")
    pipeline = getattr(message, kind)
    return getattr(pipeline, PIPELINES[kind]) if PIPELINES[kind] else pipeline


def networks_in(model: Model) -> Iterator[Network]:
    """Yield the networks of a model, in the order in which they run."""
    if isinstance(model, Network):
        yield model
        return
    for part in model.models:
        yield from networks_in(part)


def _labels(network: Message) -> tuple[str | int, ...]:
    """Return the names of classes, strings or integers."""
    group = network.WhichOneof("ClassLabels")
    return tuple(getattr(network, group).vector) if group else ()


def place_of(number: int, layer: Message, around: str) -> str:
    """Return where a layer stands, for messages, behind what is said of the place `around`."""
    return f"{around}layer {number} {shown(layer.name)}"
