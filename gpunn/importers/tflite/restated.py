"""Operators that LiteRT computes without looking at the scales or zero points that a file states for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from gpunn.importers.tflite.subgraph import FileOperator, FileTensor
from gpunn.ops.check import QUANTIZED
from gpunn.types import DType, Quantization

_FIRST = (
    *("AVERAGE_POOL_2D", "BROADCAST_TO", "DEPTH_TO_SPACE", "GATHER", "GATHER_ND", "MATRIX_DIAG"),
    *("MAX_POOL_2D", "PAD", "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_SEQUENCE"),
    *("REVERSE_V2", "SLICE", "SPACE_TO_DEPTH", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE", "TOPK_V2"),
    "TRANSPOSE",
)
# The positions of the inputs whose integers become those of the results; None: of all inputs. LiteRT refuses
# other scales for the operators that are missing here (PACK, EXPAND_DIMS, ...), or looks at them.
MOVED: Mapping[str, tuple[int, ...] | None] = {
    **dict.fromkeys(_FIRST, (0,)),
    **dict.fromkeys(("BITWISE_XOR", "DYNAMIC_UPDATE_SLICE", "MATRIX_SET_DIAG", "MAXIMUM"), (0, 1)),
    **dict.fromkeys(("MINIMUM", "RIGHT_SHIFT"), (0, 1)),
    **dict.fromkeys(("EMBEDDING_LOOKUP", "SCATTER_ND", "SPLIT"), (1,)),
    **dict.fromkeys(("SELECT", "SELECT_V2"), (1, 2)),
    "CONCATENATION": None,
    "DILATE": (0, 2),
    "ONE_HOT": (2, 3),
    "SPARSE_TO_DENSE": (2, 3),
}
ONLY: Mapping[str, DType] = {"CONCATENATION": DType.INT16}  # of other types LiteRT does look at scales
PLAIN = ("BITWISE_XOR", "RIGHT_SHIFT", "SCATTER_ND")  # which know no scales at all
SUMS = "BATCH_MATMUL"  # of int8, which knows no scales if its sums of int32 are the result
FROM_ZERO = "SOFTMAX"  # of uint8, whose results LiteRT stores as if their zero point was 0
SEVERAL = ("SPLIT", "SPLIT_V")  # whose results are all made of the input's integers


@dataclass(slots=True)
class _Restating:
    """Tensors and operators of a subgraph in the making."""

    tensors: list[FileTensor]
    constants: Set[int]
    warn: Callable[[str], None]
    operators: list[FileOperator] = field(default_factory=list)

    def add(self, operator: FileOperator) -> None:
        """Append an operator, with what gives its inputs and results the scale of the first result."""
        moved, results = self._moved(operator)
        if not moved:
            self.operators += self._from_zero(operator)
            return
        plain = operator.code in PLAIN or not results
        scale = None if plain else self.tensors[results[0]].quantization
        given, made, after = list(operator.inputs), list(operator.outputs), []
        for position, index in moved.items():
            if self.tensors[index].quantization != scale:
                self._warn(operator, scale, f"input {position}", index)
                given[position] = self._read_as(operator, index, scale)
        for position, index in enumerate(results):
            if self.tensors[index].quantization != scale:
                self._warn(operator, scale, f"output {position}", index)
                made[position] = self._new(index, scale)
                after.append(_bitcast(operator, made[position], index))
        self.operators += [replace(operator, inputs=tuple(given), outputs=tuple(made)), *after]

    def _moved(self, operator: FileOperator) -> tuple[Mapping[int, int], tuple[int, ...]]:
        """Return the inputs, by position, whose integers become those of results, and these results."""
        if operator.code == SUMS and [self.tensors[k].dtype for k in operator.outputs] == [DType.INT32]:
            return {k: index for k, index in enumerate(operator.inputs[:2]) if index is not None}, ()
        places = MOVED.get(operator.code, ())
        positions = range(len(operator.inputs)) if places is None else places
        given = {k: operator.inputs[k] for k in positions if k < len(operator.inputs)}
        moved = {k: index for k, index in given.items() if index is not None}
        results = operator.outputs if operator.code in SEVERAL else operator.outputs[:1]
        dtypes = {self.tensors[k].dtype for k in (*moved.values(), *results)}
        alike = len(dtypes) == 1 and dtypes <= {ONLY.get(operator.code, dtype) for dtype in QUANTIZED}
        return (moved if alike and results else {}), results

    def _from_zero(self, operator: FileOperator) -> list[FileOperator]:
        """Return an operator; the result of FROM_ZERO has zero point 0, and its bytes are the stated one."""
        ends = (*operator.inputs[:1], *operator.outputs[:1])
        dtypes = {self.tensors[k].dtype for k in ends if k is not None}
        if operator.code != FROM_ZERO or dtypes != {DType.UINT8} or not operator.outputs:
            return [operator]
        result, *rest = operator.outputs
        stated = self.tensors[result].quantization
        if stated is None or not any(stated.zero_point):
            return [operator]
        self.warn(f"{operator}: the output has {stated}; it is stored with zero point 0, as in LiteRT")
        stored = self._new(result, replace(stated, zero_point=(0,) * len(stated.zero_point)))
        return [replace(operator, outputs=(stored, *rest)), _bitcast(operator, stored, result)]

    def _warn(self, operator: FileOperator, scale: Quantization | None, what: str, index: int) -> None:
        stated = f"{what} has {self.tensors[index].quantization or 'no scale'}"
        if operator.code == SUMS and not any(_zeros(self.tensors[index])):
            return  # only the scale of the sums is missing
        if operator.code in (*PLAIN, SUMS):
            self.warn(f"{operator}: {stated}; it computes stored integers as plain numbers, as in LiteRT")
        else:
            first = f"the output has {scale or 'no scale'}"
            self.warn(f"{operator}: {first}, {stated}; stored integers do not change, as in LiteRT")

    def _read_as(self, operator: FileOperator, index: int, scale: Quantization | None) -> int:
        """Return a tensor of the same integers with another scale."""
        number = self._new(index, scale)
        if index in self.constants:
            self.tensors[number] = replace(self.tensors[index], quantization=scale)
        else:
            self.operators.append(_bitcast(operator, index, number))
        return number

    def _new(self, index: int, scale: Quantization | None) -> int:
        """Add a tensor like another one, with another scale, that an operator writes."""
        like = self.tensors[index]
        self.tensors.append(replace(like, buffer=0, is_variable=False, quantization=scale, bits=0))
        return len(self.tensors) - 1


def with_stated_scales(
    tensors: list[FileTensor],
    operators: Iterable[FileOperator],
    inputs: Iterable[int],
    warn: Callable[[str], None],
) -> tuple[list[FileTensor], tuple[FileOperator, ...]]:
    """Return the same with a BITCAST where a file states different scales for what an operator moves.

    LiteRT does not look at scales there: it makes stored integers of stored integers. `inputs` are those of
    the subgraph.
    """
    operators = tuple(operators)
    written = {*inputs, *(k for operator in operators for k in operator.outputs)}
    constants = {k for k, t in enumerate(tensors) if k not in written and not t.is_variable}
    found = _Restating(list(tensors), constants, warn)
    for operator in operators:
        found.add(operator)
    return found.tensors, tuple(found.operators)


def _zeros(tensor: FileTensor) -> tuple[int, ...]:
    return () if tensor.quantization is None else tensor.quantization.zero_point


def _bitcast(operator: FileOperator, x: int, y: int) -> FileOperator:
    return FileOperator(operator.place, "BITCAST", 1, (x,), (y,), "", None)
