"""A .tflite flatbuffer read with bounds: tensors, operator codes and buffers as checked Python values.

Field names are those of the TensorFlow Lite schema of November 2018 and later ones up to 2.18. The schema's
classes follow any offset in a file; this module checks their answers before it uses them.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import numpy as np
import tflite as schema
from flatbuffers.number_types import Int32Flags
from flatbuffers.table import Table

from gpunn.errors import FormatError
from gpunn.importers.tflite.layers import with_filters, with_fitting_biases
from gpunn.importers.tflite.quantization import quantization_of, read_parameters
from gpunn.importers.tflite.restated import with_stated_scales
from gpunn.importers.tflite.result_types import result_type
from gpunn.importers.tflite.sparse import read_sparsity
from gpunn.importers.tflite.subgraph import (
    FileGraph,
    FileOperator,
    FileTensor,
    printable,
    unscaled,
    with_generators,
)
from gpunn.importers.tflite.values import values_of
from gpunn.types import Array, DType, OpenShape, Shape

CORRUPT = (struct.error, IndexError, ValueError, TypeError, OverflowError)  # what reading past bounds raises
MAX_RANK = 8  # TFLite's own kernels end at 6 or 8
MAX_NAME = 1024
MAX_METADATA = 64  # entries that are looked at

# A well-formed file is read about once; tables may share vectors and strings, but not without end.
_READ_FACTOR = 2
_MIN_TENSOR = 16  # bytes of a tensor in a file: its place in the list, and a table with shape and buffer
_MIN_OPERATOR = 32  # of an operator: its place, a table with two lists, and these lists with an entry each

_T = TypeVar("_T")


def _names(enumeration: type) -> dict[int, str]:
    """Return the names of a schema's enumeration by their numbers."""
    return {v: k for k, v in vars(enumeration).items() if isinstance(v, int)}


TYPE_NAMES = _names(schema.TensorType)
TYPE_NAMES[19] = "INT2"  # of the schema of 2025
BITS = {"INT4": 4, "INT2": 2}
OPERATOR_NAMES = _names(schema.BuiltinOperator)
OPTION_TABLES, OPTION_TABLES_2 = _names(schema.BuiltinOptions), _names(schema.BuiltinOptions2)


class TfliteFile:
    """The bytes of one file; `subgraphs` is the number of its subgraphs."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        self._left = _READ_FACTOR * len(data)
        with self._reading("the model"):
            self._model = schema.Model.GetRootAs(data, 0)
            self._check_version()
            self._buffers = self._count(self._model.BuffersLength(), 4)
            self.subgraphs = self._count(self._model.SubgraphsLength(), 4)
            codes = self._tables(self._model.OperatorCodesLength(), self._model.OperatorCodes)
            self._codes = [self._code(code) for code in codes]
        if self.subgraphs == 0:
            self.fail("has no subgraph")
        self._graphs: dict[int, FileGraph] = {}
        self._values: dict[tuple[int, str, Shape], Array] = {}  # by buffer: they are asked for again
        self._warnings: dict[str, None] = {}
        self._told = False

    def graph(self, index: int) -> FileGraph:
        """Return a subgraph, read when it is asked for the first time."""
        if index not in self._graphs:
            if not 0 <= index < self.subgraphs:
                self.fail(f"there is no subgraph {index}, there are {self.subgraphs}")
            self._graphs[index] = self._graph(index)
        return self._graphs[index]

    def tell_warnings(self) -> tuple[str, ...]:
        """Return in which ways the subgraphs read so far contradict themselves; warn() tells of others."""
        self._told = True
        return tuple(self._warnings)

    def warn(self, what: str) -> None:
        """Note that the file contradicts itself, though what it computes is defined.

        After the model has its warnings, a subgraph that only a run reads warns at once.
        """
        if self._told and what not in self._warnings:
            warnings.warn(f"{self.name}: {what}", stacklevel=2)
        self._warnings[what] = None

    def fail(self, what: str) -> NoReturn:
        """Raise FormatError naming this file."""
        raise FormatError(f"{self.name}: {what}")

    def value(self, tensor: FileTensor) -> Array | None:
        """Return a constant tensor's value, a view of the file's bytes if possible; None if there is none."""
        unfolded = bool(tensor.bits) or tensor.sparsity is not None
        key = tensor.buffer, tensor.type_name, tensor.stored
        if key in self._values and not unfolded:
            return self._values[key]
        with self._reading(str(tensor)):
            data = self._buffer(tensor.buffer)
            if tensor.type is None or (data.size == 0 and tensor.type.nbytes != 0):
                return None
            if tensor.type.dtype is DType.STRING:
                self._take(data.size)
            found = values_of(tensor.type, data, tensor.bits, tensor.sparsity)
        if not unfolded:  # what unfolds is not kept twice
            self._values[key] = found
        return found

    def metadata(self, name: bytes, most: int) -> bytes:
        """Return the bytes of a metadata entry; none if there is no such entry, or more than `most`.

        Raises one of CORRUPT if it cannot be read.
        """
        for i in range(min(self._model.MetadataLength(), MAX_METADATA)):
            entry = self._model.Metadata(i)
            if entry.Name() == name and 0 <= entry.Buffer() < self._buffers:
                found = self._buffer(entry.Buffer())
                return found.tobytes() if found.size <= most else b""
        return b""

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        """Convert the errors of reading out of bounds to FormatError."""
        try:
            yield
        except FormatError:
            raise
        except CORRUPT as error:
            reason = str(error)
        else:
            return
        self.fail(f"corrupt or truncated, {what} cannot be read ({reason})")

    def _take(self, nbytes: int) -> None:
        """Count bytes as read; a file that makes its reader go round in circles is refused."""
        self._left -= nbytes
        if self._left < 0:
            self.fail("corrupt, its tables hold more entries than the file has room for")

    def _count(self, count: int, size: int) -> int:
        """Return a vector's length, bounded by the file's size."""
        if count * size > len(self.data):
            self.fail(f"corrupt, {count} entries do not fit a file of {len(self.data)} bytes")
        self._take(count * size)
        return count

    def _tables(self, count: int, get: Callable[[int], _T], size: int = 4) -> list[_T]:
        return [get(i) for i in range(self._count(count, size))]

    def _vector(self, get: Callable[[], Any], length: Callable[[], int], size: int = 4) -> tuple[Any, ...]:
        """Return a vector of numbers of `size` bytes each; empty if the field is absent."""
        try:
            found = get()  # a view of the file, or 0
        except ValueError:
            self._count(length(), size)  # which says so if the vector is longer than the file
            raise
        if isinstance(found, int):
            return ()
        self._count(len(found), size)
        return tuple(found.tolist())

    def _text(self, raw: bytes | None) -> str:
        """Return a string of the file, fit to be shown: short, and without control characters."""
        self._take(len(raw or b""))
        return printable((raw or b"")[:MAX_NAME].decode("utf-8", "replace"))

    def _check_version(self) -> None:
        version = self._model.Version()
        if version != 3:
            self.fail(f"expected schema version 3, got {version}")

    def _code(self, code: Any) -> tuple[str, int]:
        """Return an operator code's name and version.

        The number stands in an int8 field, since 2020 also in an int32 field; the larger one counts.
        """
        number = max(_new_builtin_code(code._tab), code.DeprecatedBuiltinCode())
        if number == schema.BuiltinOperator.CUSTOM:
            return f"CUSTOM {self._text(code.CustomCode())}", code.Version()
        return OPERATOR_NAMES.get(number, f"BUILTIN_{number}"), code.Version()

    def _graph(self, index: int) -> FileGraph:
        """Return subgraph `index`; places in it are named without it where it is the first."""
        prefix = f"subgraph {index}, " if index else ""
        with self._reading(f"subgraph {index}"):
            graph = self._model.Subgraphs(index)
            tensors = self._tables(graph.TensorsLength(), graph.Tensors, _MIN_TENSOR)
            operators = self._tables(graph.OperatorsLength(), graph.Operators, _MIN_OPERATOR)
            inputs = self._vector(graph.InputsAsNumpy, graph.InputsLength)
            outputs = self._vector(graph.OutputsAsNumpy, graph.OutputsLength)
        for role, indices in (("input", inputs), ("output", outputs)):
            self._expect_tensors(indices, f"an {role} of {prefix[:-2] or 'the model'}", len(tensors))
        typed = [self._tensor(i, t, prefix) for i, t in enumerate(tensors)]
        read = tuple(self._operator(i, o, prefix, len(tensors)) for i, o in enumerate(operators))
        for operator in read:
            given = [None if i is None else typed[i].dtype for i in operator.inputs]
            name = result_type(operator.code, ["" if d is None else d.name for d in given])
            for i in operator.outputs:
                if name not in ("", typed[i].type_name):
                    typed[i] = self._tensor(i, tensors[i], prefix, name)
        typed, read = with_stated_scales(typed, read, inputs, self.warn)
        typed = with_filters(unscaled(typed, read), read, self.warn)
        typed = with_fitting_biases(typed, read, self.warn)
        return FileGraph(index, *with_generators(typed, read), inputs, outputs)

    def _tensor(self, index: int, tensor: Any, prefix: str, type_name: str = "") -> FileTensor:
        """Return tensor `index`, of another type than the file says if that has a `type_name`."""
        where = f"{prefix}tensor {index}"
        with self._reading(where):
            stored = self._vector(tensor.ShapeAsNumpy, tensor.ShapeLength)
            signature = self._vector(tensor.ShapeSignatureAsNumpy, tensor.ShapeSignatureLength)
            number = tensor.Type()
            type_name = type_name or TYPE_NAMES.get(number, f"type {number}")
            name = self._text(tensor.Name())
            buffer = tensor.Buffer()
            unranked = not stored and not tensor.HasRank()  # a scalar looks alike in files before 2023
            is_variable, sparse = tensor.IsVariable(), tensor.Sparsity()
            sparsity = None if sparse is None else read_sparsity(sparse, self._vector)
            parameters = read_parameters(tensor.Quantization(), self._vector)
        if len(stored) > MAX_RANK or min(stored, default=0) < 0:
            shape = list(stored[:32])
            self.fail(f"{where} ({name}) has shape {shape}, expected up to {MAX_RANK} extents from 0")
        if buffer >= max(self._buffers, 1):
            self.fail(f"{where} ({name}) refers to buffer {buffer}, there are {self._buffers}")
        bits = self._bits(where, type_name, buffer)
        dtype = DType.INT8 if bits else DType.__members__.get(type_name)
        signature = signature if len(signature) == len(stored) else stored
        extents = tuple(None if s == -1 else d for d, s in zip(stored, signature, strict=True))
        return FileTensor(
            place=where,
            name=name or f"tensor_{index}",
            type_name=type_name,
            dtype=dtype,
            open=OpenShape(None if unranked else extents),
            stored=stored,
            buffer=buffer,
            is_variable=is_variable,
            quantization=quantization_of(
                dtype,
                stored,
                parameters,
                lambda what: self.fail(f"{where} ({name}) {what}"),
                lambda what: self.warn(f"{where} ({name}) {what}"),
            ),
            sparsity=sparsity,
            bits=bits,
            blocks=parameters.blocks,
            dead=parameters.scales == (0.0,),
        )

    def _bits(self, where: str, type_name: str, buffer: int) -> int:
        """Return the bits of a constant's elements where several share a byte; 0 for all other tensors."""
        with self._reading(where):
            return BITS[type_name] if type_name in BITS and self._buffer(buffer).size else 0

    def _operator(self, index: int, operator: Any, prefix: str, tensors: int) -> FileOperator:
        where = f"{prefix}operation {index}"
        with self._reading(where):
            opcode = operator.OpcodeIndex()
            inputs = self._vector(operator.InputsAsNumpy, operator.InputsLength)
            outputs = self._vector(operator.OutputsAsNumpy, operator.OutputsLength)
            options_type, union = _options(operator)
            custom = self._custom_options(operator)
            intermediates = self._vector(operator.IntermediatesAsNumpy, operator.IntermediatesLength)
        if union is not None and union.Pos >= len(self.data):
            self.fail(f"corrupt or truncated, the options of {where} are at byte {union.Pos}")
        if opcode >= len(self._codes):
            self.fail(f"{where} refers to operator code {opcode}, there are {len(self._codes)}")
        code, version = self._codes[opcode]
        self._expect_tensors([i for i in inputs if i != -1], f"an input of {where}, {code}", tensors)
        self._expect_tensors(outputs, f"an output of {where}, {code}", tensors)
        self._expect_tensors(intermediates, f"an intermediate of {where}, {code}", tensors)
        return FileOperator(
            place=where,
            code=code,
            version=version,
            inputs=tuple(None if i == -1 else i for i in inputs),
            outputs=outputs,
            options_type=options_type,
            options_table=None if union is None else (self.data, union.Pos),
            custom_options=custom,
            intermediates=intermediates,
        )

    def _custom_options(self, operator: Any) -> bytes:
        """Return a custom operator's own options: in the flatbuffer, or behind it (LargeCustomOptions)."""
        offset, size = operator.LargeCustomOptionsOffset(), operator.LargeCustomOptionsSize()
        if offset > 1:
            self._take(size)
            return self._outside(offset, size, "a block of custom options").tobytes()
        count = self._count(operator.CustomOptionsLength(), 1)
        return operator.CustomOptionsAsNumpy().tobytes() if count else b""

    def _expect_tensors(self, indices: Iterable[int], what: str, tensors: int) -> None:
        """Raise FormatError unless all indices are those of tensors."""
        for index in indices:
            if not 0 <= index < tensors:
                self.fail(f"{what} is tensor {index}, there are {tensors}")

    def _buffer(self, index: int) -> Array:
        """Return a buffer's bytes: inside the flatbuffer, or behind it (in files over 2 GiB)."""
        if self._buffers == 0:
            return np.empty(0, np.uint8)
        buffer = self._model.Buffers(index)
        found: Array | int = buffer.DataAsNumpy()
        if not isinstance(found, int):
            return found
        if buffer.Offset() > 1:
            return self._outside(buffer.Offset(), buffer.Size(), f"buffer {index}")
        return np.empty(0, np.uint8)

    def _outside(self, offset: int, size: int, what: str) -> Array:
        """Return bytes of the file by their place in it."""
        if offset + size > len(self.data):
            self.fail(f"{what} ends at byte {offset + size}, the file at {len(self.data)}")
        return np.frombuffer(self.data, np.uint8, size, offset)


def _options(operator: Any) -> tuple[str, Any]:
    """Return the name of an operator's option table, of either union; "" and None where it has none."""
    for names, number, union in (
        (OPTION_TABLES, operator.BuiltinOptionsType(), operator.BuiltinOptions),
        (OPTION_TABLES_2, operator.BuiltinOptions2Type(), operator.BuiltinOptions2),
    ):
        if number:
            return names.get(number, f"number {number}"), union()
    return "", None


def _new_builtin_code(table: Table) -> int:
    """Return OperatorCode.builtin_code, field 3 of the table; the schema's class hides it below 127."""
    return int(table.GetSlot(10, 0, Int32Flags))
