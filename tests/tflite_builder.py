"""Builder of small .tflite files, and runs of ai-edge-litert, the independent oracle of the tests."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gpunn.types import DType, TensorType
from tests.tflite_parts import Blocks, Node, Sparsity, Subgraph, Tensor
from tests.tflite_writer import Writer

Array = npt.NDArray[Any]
DEFAULT_KERNELS = "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
ABSENT = -1  # an optional input that is not given


@dataclass
class Graph:
    """A graph under construction: tensors are numbers, as in the file.

    g = Graph(); x = g.input(float32(1, 4)); y, = g.add("RELU", [x], [float32(1, 4)]); g.build([y])
    """

    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)

    def tensor(
        self,
        type: TensorType,
        name: str | None = "",
        data: bytes | None = None,
        signature: tuple[int, ...] | None = None,
        is_variable: bool = False,
        stored_as: str = "",
        sparsity: Sparsity | None = None,
        blocks: Blocks | None = None,
    ) -> int:
        """Add a tensor to the file; name None leaves the field out, "" stands for a generated name.

        `stored_as`: the TensorType in the file, if it is another one. `blocks`: the scales of blocks.
        """
        made_up = f"t{len(self.tensors)}" if name == "" else name
        self.tensors.append(Tensor(type, made_up, data, signature, is_variable, stored_as, sparsity, blocks))
        return len(self.tensors) - 1

    def resource(self) -> int:
        """Add a tensor that is a handle of a variable or a table."""
        return self.tensor(TensorType(DType.INT32, ()), stored_as="RESOURCE")

    def handle(self, operator: str, **options: Any) -> int:
        """Append an operator that returns a handle, with its options; return the handle."""
        made = self.resource()
        self.nodes.append(Node(operator, (), (made,), options))
        return made

    def input(self, type: TensorType, name: str | None = "", signature: tuple[int, ...] | None = None) -> int:
        """A graph input."""
        index = self.tensor(type, name, signature=signature)
        self.inputs.append(index)
        return index

    def constant(self, value: npt.ArrayLike, name: str | None = "") -> int:
        """A constant tensor."""
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        data = encoded(array.reshape(-1).tolist()) if array.dtype == object else array.tobytes()
        return self.tensor(TensorType(DType.of(array.dtype), array.shape), name, data)

    def add(
        self,
        operator: str,
        inputs: Sequence[int],
        outputs: Sequence[TensorType],
        options: Mapping[str, Any] | None = None,
        *,
        version: int = 1,
        names: Sequence[str | None] = (),
        custom_options: bytes | None = None,
        signatures: Sequence[tuple[int, ...]] = (),
        intermediates: Sequence[int] = (),
    ) -> tuple[int, ...]:
        """Append an operator (BuiltinOperator's name; any other is a custom one) and its outputs."""
        labels = [*names, *[""] * (len(outputs) - len(names))]
        open_shapes = [*signatures, *[None] * (len(outputs) - len(signatures))]
        made = tuple(
            self.tensor(t, n, signature=s) for t, n, s in zip(outputs, labels, open_shapes, strict=True)
        )
        more = custom_options, tuple(intermediates)
        self.nodes.append(Node(operator, tuple(inputs), made, options or {}, version, *more))
        return made

    def build(
        self,
        outputs: Sequence[int],
        *,
        codes: str = "both",
        alignment: int = 16,
        metadata: Mapping[str, bytes] | None = None,
        signature: str | None = None,
        subgraphs: int = 1,
        called: Sequence[tuple[Graph, Sequence[int]]] = (),
        outside: bool = False,
    ) -> bytes:
        """Return the file. `codes`: which of OperatorCode's two fields has the operator's number ("old"
        before 2020, "new", "both"); `alignment` of buffers; `subgraphs`: how often it has the graph;
        `called`: the subgraphs after it, each with its outputs; `outside`: constants and custom options
        after the flatbuffer, as in files over 2 GiB."""
        writer = Writer(codes, alignment, outside)
        graphs = [*[(self, outputs)] * subgraphs, *called]
        parts = [Subgraph(graph.tensors, graph.nodes, graph.inputs, ends) for graph, ends in graphs]
        return writer.model(parts, metadata or {}, signature)


def single_op(
    operator: str,
    inputs: Sequence[Array | TensorType | None],
    outputs: Sequence[TensorType],
    options: Mapping[str, Any] | None = None,
    *,
    version: int = 1,
) -> bytes:
    """Return a file with one operator.

    An ndarray is a constant tensor, a TensorType a graph input, None an absent optional input.
    `options` has the option table's fields by their schema names ("stride_w", "fused_activation_function");
    enumerations go by name ("SAME", "RELU6") or number, vectors as sequences of int.
    """
    graph = Graph()
    numbers = [_number(graph, i) for i in inputs]
    return graph.build(graph.add(operator, numbers, outputs, options, version=version))


def encoded(strings: Sequence[bytes]) -> bytes:
    """Return a string tensor's buffer: a count, the offset of each string and of the end, the bytes."""
    lengths = [4 * (len(strings) + 2), *map(len, strings)]
    return struct.pack(f"<{len(lengths) + 1}i", len(strings), *itertools.accumulate(lengths)) + b"".join(
        strings
    )


def litert_run(model: bytes, inputs: Sequence[Array], reference: bool = False) -> list[Array]:
    """Return a file's outputs by ai-edge-litert's builtin kernels, without delegate, on one thread.

    reference: by its reference kernels.
    """
    (outputs,) = litert_runs(model, [inputs], "BUILTIN_REF" if reference else DEFAULT_KERNELS)
    return outputs


def litert_runs(
    model: bytes,
    frames: Sequence[Sequence[Array] | None],
    resolver: str = DEFAULT_KERNELS,
) -> list[list[Array]]:
    """Return a file's outputs by one interpreter of ai-edge-litert, for one frame after the other.

    A frame of None resets variable tensors instead. `resolver` names the kernels (OpResolverType).

    The inputs of the graph are resized to the first frame's arrays.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=model,
        experimental_op_resolver_type=OpResolverType[resolver],
        num_threads=1,
    )
    first = next(frame for frame in frames if frame is not None)
    for detail, value in zip(interpreter.get_input_details(), first, strict=True):
        if tuple(detail["shape"]) != value.shape:
            interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    found = []
    for frame in frames:
        if frame is None:
            interpreter.reset_all_variables()
            continue
        for detail, value in zip(interpreter.get_input_details(), frame, strict=True):
            dtype = object if value.dtype == object else detail["dtype"]
            interpreter.set_tensor(detail["index"], np.asarray(value, dtype, order="C"))
        interpreter.invoke()
        found.append([interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()])
    return found


def _number(graph: Graph, item: Array | TensorType | None) -> int:
    if item is None:
        return ABSENT
    return graph.input(item) if isinstance(item, TensorType) else graph.constant(item)
