"""Writer of tensors and operators as .tflite files, for tflite_builder.py."""

from __future__ import annotations

import functools
import importlib
import struct
import types
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite

from gpunn.types import TensorType
from tests.tflite_parts import Blocks, Node, Sparsity, Subgraph, Tensor

_AFTER = 0x6AFE_6AFE_0000_0000  # stands for the end of the flatbuffer until the end is known

# Operators whose option table has another name (TensorFlow Lite schema, union BuiltinOptions).
_OPTIONS_OF = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions",
    "MULTINOMIAL": "RandomOptions",
    "RANDOM_STANDARD_NORMAL": "RandomOptions",
    "RANDOM_UNIFORM": "RandomOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "REDUCE_ALL": "ReducerOptions",
    "REDUCE_ANY": "ReducerOptions",
    "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions",
    "REDUCE_PROD": "ReducerOptions",
    "SUM": "ReducerOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
}
_BLOCKWISE = 2  # of the union QuantizationDetails
_NEWER = types.SimpleNamespace(INT2=19)  # tensor types of schemas after the one of the package
_ENUMS = (_NEWER, tflite.ActivationFunctionType, tflite.Padding, tflite.MirrorPadMode, tflite.TensorType)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


@functools.cache
def _options_table(operator: str) -> str | None:
    unions = {**vars(tflite.BuiltinOptions), **vars(tflite.BuiltinOptions2)}
    known = {_plain(n): n for n in unions if n.endswith("Options")}
    return _OPTIONS_OF.get(operator, known.get(_plain(operator) + "options"))


def _enum(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    for enum in _ENUMS:
        if hasattr(enum, value):
            return getattr(enum, value)
    raise ValueError(f"no enumeration has {value}")


class Writer:
    """Turns subgraphs into a flatbuffer; children are written before their parents."""

    def __init__(self, codes: str, alignment: int, outside: bool) -> None:
        self.b = flatbuffers.Builder(1024)
        self.codes = codes
        self.alignment = alignment
        self.outside = outside
        self.after = bytearray()

    def table(self, name: str, fields: Mapping[str, Any]) -> int:
        """Write a table of the schema; leave out fields that are None."""
        module = importlib.import_module(f"tflite.{name}")
        adders = {_plain(n[3:]): f for n, f in vars(module).items() if n.startswith("Add")}
        ready = {k: self.value(v) for k, v in fields.items() if v is not None}
        module.Start(self.b)
        for key, value in ready.items():
            adders[_plain(key)](self.b, value)
        return int(module.End(self.b))

    def value(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return int(self.b.CreateNumpyVector(value))
        if isinstance(value, bytes):
            return int(self.b.CreateString(value))
        if isinstance(value, (list, tuple)):
            return self.ints(value)
        return _enum(value)

    def ints(self, values: Sequence[int] | npt.NDArray[Any]) -> int:
        return int(self.b.CreateNumpyVector(np.asarray(values, np.int32)))

    def offsets(self, offsets: Sequence[int]) -> int:
        self.b.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.b.PrependUOffsetTRelative(offset)
        return int(self.b.EndVector())

    def data(self, data: bytes) -> int:
        self.b.StartVector(1, len(data), self.alignment)
        self.b.head -= len(data)
        self.b.Bytes[self.b.head : self.b.head + len(data)] = data
        return int(self.b.EndVector())

    def buffer(self, data: bytes) -> int:
        if not self.outside:
            return self.table("Buffer", {"data": self.data(data)})
        return self.table("Buffer", {"offset": self.put_after(data), "size": len(data)})

    def put_after(self, data: bytes) -> int:
        """Put data after the flatbuffer; return a placeholder of its offset."""
        offset = _AFTER + len(self.after)
        self.after += data
        return offset

    def options(self, name: str, options: Mapping[str, Any]) -> dict[str, int]:
        """Return the fields of an operator with an option table of either union."""
        field = "builtin_options" if hasattr(tflite.BuiltinOptions, name) else "builtin_options_2"
        union = tflite.BuiltinOptions if field == "builtin_options" else tflite.BuiltinOptions2
        return {f"{field}_type": getattr(union, name), field: self.table(name, options)}

    def custom_options(self, data: bytes | None) -> dict[str, int]:
        """Return the fields of an operator with custom options."""
        if data is None:
            return {}
        if not self.outside:
            return {"custom_options": self.data(data)}
        return {
            "large_custom_options_offset": self.put_after(data),
            "large_custom_options_size": len(data),
        }

    def finish(self, root: int) -> bytes:
        self.b.Finish(root, file_identifier=b"TFL3")
        file = bytes(self.b.Output())
        for offset in range(len(self.after)):
            file = file.replace(struct.pack("<Q", _AFTER + offset), struct.pack("<Q", len(file) + offset))
        return file + bytes(self.after)

    def string(self, text: str | None) -> int | None:
        return None if text is None else int(self.b.CreateString(text))

    def tensor(self, tensor: Tensor, buffer: int) -> int:
        return self.table(
            "Tensor",
            {
                "shape": tensor.type.shape,
                "type": tensor.stored_as or tensor.type.dtype.name,
                "sparsity": tensor.sparsity and self.sparsity(tensor.sparsity),
                "buffer": buffer,
                "name": self.string(tensor.name),
                "shape_signature": tensor.signature,
                "is_variable": tensor.is_variable or None,
                "quantization": self.quantization(tensor.type, tensor.blocks),
            },
        )

    def sparsity(self, sparsity: Sparsity) -> int:
        """Write SparsityParameters with their levels."""
        levels = [self.level(level, sparsity.width) for level in sparsity.levels]
        return self.table(
            "SparsityParameters",
            {
                "traversal_order": sparsity.order,
                "block_map": sparsity.blocks,
                "dim_metadata": self.offsets(levels),
            },
        )

    def level(self, level: int | tuple[Sequence[int], Sequence[int]], width: str) -> int:
        if isinstance(level, int):
            return self.table(
                "DimensionMetadata", {"format": tflite.DimensionType.DENSE, "dense_size": level}
            )
        kind, dtype = getattr(tflite.SparseIndexVector, f"{width}Vector"), np.dtype(width.lower())
        vectors = [int(self.b.CreateNumpyVector(np.asarray(values, dtype))) for values in level]
        segments, indices = (self.table(f"{width}Vector", {"values": vector}) for vector in vectors)
        return self.table(
            "DimensionMetadata",
            {
                "format": tflite.DimensionType.SPARSE_CSR,
                "array_segments_type": kind,
                "array_segments": segments,
                "array_indices_type": kind,
                "array_indices": indices,
            },
        )

    def quantization(self, type: TensorType, blocks: Blocks | None) -> int | None:
        if blocks is not None:
            return self.table(
                "QuantizationParameters", {"details_type": _BLOCKWISE, "details": self.blocks(blocks)}
            )
        if type.quantization is None:
            return None
        scale = int(self.b.CreateNumpyVector(np.array(type.quantization.scale, np.float32)))
        zero = int(self.b.CreateNumpyVector(np.array(type.quantization.zero_point, np.int64)))
        return self.table(
            "QuantizationParameters",
            {"scale": scale, "zero_point": zero, "quantized_dimension": type.quantization.axis},
        )

    def blocks(self, blocks: Blocks) -> int:
        """Write BlockwiseQuantization, which the package's schema does not have."""
        self.b.StartObject(3)
        for slot, number in enumerate((blocks.scales, blocks.zeros, blocks.size)):
            self.b.PrependInt32Slot(slot, number, 0)
        return int(self.b.EndObject())

    def operator_code(self, operator: str, version: int) -> int:
        number = getattr(tflite.BuiltinOperator, operator, tflite.BuiltinOperator.CUSTOM)
        return self.table(
            "OperatorCode",
            {
                "deprecated_builtin_code": None if self.codes == "new" else min(number, 127),
                "builtin_code": None if self.codes == "old" else number,
                "version": version,
                "custom_code": None if number != tflite.BuiltinOperator.CUSTOM else self.string(operator),
            },
        )

    def node(self, node: Node, opcode: int) -> int:
        options = _options_table(node.operator)
        if options is None and node.options:
            raise ValueError(f"{node.operator} has no option table")
        return self.table(
            "Operator",
            {
                "opcode_index": opcode,
                "inputs": node.inputs,
                "outputs": node.outputs,
                "intermediates": node.intermediates or None,
                **(self.options(options, node.options) if options else {}),
                **self.custom_options(node.custom_options),
            },
        )

    def subgraph(self, graph: Subgraph, opcodes: Mapping[Any, int], buffers: list[int]) -> int:
        tensors = []
        for tensor in graph.tensors:
            if tensor.data is not None:
                buffers.append(self.buffer(tensor.data))
            tensors.append(self.tensor(tensor, len(buffers) - 1 if tensor.data is not None else 0))
        nodes = [self.node(n, opcodes[n.operator, n.version]) for n in graph.nodes]
        return self.table(
            "SubGraph",
            {
                "tensors": self.offsets(tensors),
                "inputs": graph.inputs,
                "outputs": graph.outputs,
                "operators": self.offsets(nodes),
                "name": self.string("main"),
            },
        )

    def signature_def(self, key: str, graph: Subgraph) -> int:
        def maps(indices: Sequence[int], prefix: str) -> int:
            return self.offsets(
                [
                    self.table("TensorMap", {"name": self.string(f"{prefix}{i}"), "tensor_index": t})
                    for i, t in enumerate(indices)
                ]
            )

        fields = {"inputs": maps(graph.inputs, "in"), "outputs": maps(graph.outputs, "out")}
        return self.table("SignatureDef", {**fields, "signature_key": self.string(key), "subgraph_index": 0})

    def model(
        self,
        subgraphs: Sequence[Subgraph],
        metadata: Mapping[str, bytes],
        signature: str | None,
    ) -> bytes:
        """Return the file of these subgraphs, the main one first; `signature`: the key of its signature."""
        kinds = dict.fromkeys((n.operator, n.version) for graph in subgraphs for n in graph.nodes)
        opcodes = {kind: index for index, kind in enumerate(kinds)}
        buffers = [self.table("Buffer", {})]
        graphs = [self.subgraph(graph, opcodes, buffers) for graph in subgraphs]
        entries = []
        for name, data in metadata.items():
            buffers.append(self.table("Buffer", {"data": self.data(data)}))
            entries.append(self.table("Metadata", {"name": self.string(name), "buffer": len(buffers) - 1}))
        signatures = [] if signature is None else [self.signature_def(signature, subgraphs[0])]
        root = self.table(
            "Model",
            {
                "version": 3,
                "operator_codes": self.offsets([self.operator_code(*kind) for kind in kinds]),
                "subgraphs": self.offsets(graphs),
                "description": self.string("made by a test"),
                "buffers": self.offsets(buffers),
                "metadata": self.offsets(entries) if entries else None,
                "signature_defs": self.offsets(signatures) if signatures else None,
            },
        )
        return self.finish(root)
