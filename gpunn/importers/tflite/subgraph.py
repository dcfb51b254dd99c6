"""A subgraph of a .tflite file as checked Python values: its tensors and operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpunn.importers.tflite.quantization import Blocks
from gpunn.importers.tflite.sparse import Sparsity
from gpunn.types import DType, OpenShape, Quantization, Shape, TensorType

DRAWING = ("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM")  # operators with a state of their own
# Operators that check a scale of int32, of a bias mostly, or refuse it; to LiteRT's others these are numbers.
SCALED = (
    *("CONV_2D", "CUSTOM", "DEPTHWISE_CONV_2D", "DEQUANTIZE", "FULLY_CONNECTED", "LSTM", "QUANTIZE", "SVDF"),
    *("TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE"),
)


@dataclass(frozen=True, slots=True)
class FileTensor:
    """An entry of SubGraph.tensors. `dtype` is None for types that gpunn has no name for.

    `place` identifies the entry, for messages. `open` is the shape with the extents that the file leaves open
    (shape_signature -1, or no shape at all). `bits`: of an element, if several share a byte of the file.
    `blocks`: the blocks of a row that have scales of their own, if it is quantised in this way. `dead`: its
    only scale is 0, which stands for no quantisation except in a filter.
    """

    place: str
    name: str
    type_name: str
    dtype: DType | None
    open: OpenShape
    stored: Shape
    buffer: int
    is_variable: bool
    quantization: Quantization | None = None
    sparsity: Sparsity | None = None
    bits: int = 0
    blocks: Blocks | None = None
    dead: bool = False

    @property
    def is_handle(self) -> bool:
        """Tell whether it holds no numbers but says which resource is meant."""
        return self.type_name == "RESOURCE"

    @property
    def type(self) -> TensorType | None:
        """Return the type with the stored shape, which has 1 for open extents."""
        return None if self.dtype is None else TensorType(self.dtype, self.stored, self.quantization)

    def __str__(self) -> str:
        return f"{self.place} ({self.name})"


@dataclass(frozen=True, slots=True)
class FileOperator:
    """An entry of SubGraph.operators; an absent input is None."""

    place: str
    code: str
    version: int
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    options_type: str
    options_table: tuple[bytes, int] | None
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """Return the operator's name and version, for messages."""
        return f"{self.code} v{self.version}"

    def __str__(self) -> str:
        return f"{self.place}, {self.code}"


@dataclass(frozen=True, slots=True)
class FileGraph:
    """An entry of Model.subgraphs; inputs and outputs are numbers of tensors. The first is what runs."""

    index: int
    tensors: tuple[FileTensor, ...]
    operators: tuple[FileOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def __str__(self) -> str:
        return f"subgraph {self.index}" if self.index else "the model"


def unscaled(tensors: list[FileTensor], operators: Iterable[FileOperator]) -> list[FileTensor]:
    """Return the same without scales of int32, but for tensors of operators that read them."""
    read = {i for o in operators if o.code.startswith(SCALED) for i in (*o.inputs, *o.outputs)}
    return [
        replace(t, quantization=None) if t.dtype is DType.INT32 and k not in read else t
        for k, t in enumerate(tensors)
    ]


def with_generators(
    tensors: list[FileTensor], operators: Iterable[FileOperator]
) -> tuple[tuple[FileTensor, ...], tuple[FileOperator, ...]]:
    """Return the same with a variable as last input of each operator that draws: its generator's state."""
    tensors, changed = list(tensors), []
    for operator in operators:
        if operator.code in DRAWING:
            name, open = f"{operator.code}:drawn", OpenShape(())
            operator = replace(operator, inputs=(*operator.inputs, len(tensors)))
            tensors.append(
                FileTensor(operator.place, name, "INT64", DType.INT64, open, (), 0, is_variable=True)
            )
        changed.append(operator)
    return tuple(tensors), tuple(changed)


def printable(text: str) -> str:
    """Return the text with characters that steer a terminal replaced."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
