"""CoreMLFile: an .mlmodel file decoded into messages, with what belongs to the network as a whole."""

from __future__ import annotations

from typing import NoReturn

from google.protobuf.message import DecodeError

from gpunn.errors import FormatError, UnsupportedError
from gpunn.importers.coreml.messages import Message, model_class
from gpunn.importers.coreml.wire import varint

NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")
OTHER_MODELS = {  # Model.proto: the other kinds of models, by number of their field
    200: "pipelineClassifier",
    201: "pipelineRegressor",
    202: "pipeline",
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
FIRST_ND_LAYER = 600  # layer types from this field number on came with tensors of any rank
MAX_NAME = 200  # characters of a name in messages


class CoreMLFile:
    """The messages of an .mlmodel file; `name` is the file's.

    Raises FormatError for bytes that are no model, UnsupportedError for a model that is no neural network.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        try:
            model = model_class().FromString(data)
        except DecodeError as error:
            raise FormatError(f"{name}: is no complete Core ML model ({error})") from None
        kind = model.WhichOneof("Type")
        if kind is None:
            self._refuse(data)
        self.description = model.description
        self.network: Message = getattr(model, kind)
        self.classes: tuple[str, ...] | None = None
        if kind == "neuralNetworkClassifier":
            group = self.network.WhichOneof("ClassLabels")
            self.classes = tuple(map(str, getattr(self.network, group).vector)) if group else ()

    @property
    def legacy(self) -> bool:
        """Tell whether all tensors have the five axes of the first versions of the format."""
        network = self.network
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
        named: str = self.network.labelProbabilityLayerName
        if named or not self.network.layers:
            return named
        return next(iter(self.network.layers[-1].output), "")

    def fail(self, what: str) -> NoReturn:
        """Raise FormatError naming the file."""
        raise FormatError(f"{self.name}: {what}")

    def _refuse(self, data: bytes) -> NoReturn:
        """Raise the error for a model that holds no neural network."""
        kind = next((OTHER_MODELS[n] for n in _field_numbers(data) if n in OTHER_MODELS), None)
        if kind is None:
            self.fail("is a Core ML model of no known kind")
        raise UnsupportedError(f"{self.name}: is a Core ML model of the kind {kind}, not a neural network")


def shown(name: str) -> str:
    """Return a name for messages, in quotes and not too long."""
    return repr(name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}...")


def _field_numbers(data: bytes) -> list[int]:
    """Return the numbers of the outermost fields of a message that could be decoded."""
    numbers, at = [], 0
    while at < len(data):
        tag, at = varint(data, at)
        numbers.append(tag >> 3)
        if tag & 7 == 2:
            length, at = varint(data, at)
            at += length
        elif tag & 7 == 0:
            _, at = varint(data, at)
        elif tag & 7 in (1, 5):
            at += 8 if tag & 7 == 1 else 4
        else:
            break
    return numbers
