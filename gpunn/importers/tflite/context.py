"""Context: what the readers of a file's subgraphs share, with bounds of how much is read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gpunn.custom import CustomOperator
from gpunn.errors import UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand
from gpunn.graph.tensors import zeros
from gpunn.importers.common.node import RefusedError
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.common.unfolding import Unfolding
from gpunn.importers.tflite.file import TfliteFile
from gpunn.importers.tflite.list_writes import with_list_writes
from gpunn.importers.tflite.subgraph import FileGraph, FileTensor, printable
from gpunn.limits import UNLIMITED, Limits
from gpunn.types import Array, DType, TensorType, bounded

MAX_DEPTH = 16  # of subgraphs that call one another
MAX_REPEATED = 1 << 14  # operators and their operands that are read again, as their subgraph is called again


class Variable(NamedTuple):
    """A named variable of a file (VAR_HANDLE), which keeps a tensor."""

    container: bytes
    name: bytes

    def __str__(self) -> str:
        return printable(self.name.decode("utf-8", "replace")) or "variable"


class Table(NamedTuple):
    """A table of a file (HASHTABLE): pairs of strings and numbers by key; types by their names."""

    number: int
    key: str
    value: str

    def __str__(self) -> str:
        return f"table_{self.number}"


class Contents(NamedTuple):
    """The imported content of a table: keys, a value for each, and the number of different keys."""

    keys: Operand
    values: Operand
    size: int


Key = tuple[int, int] | Variable  # of state: a variable tensor, by subgraph and number, or one by name


@dataclass(slots=True)
class Context:
    """The shared data of all readers of one file. `as_stored`: tensors have the shapes in the file.

    `constants` are operands by subgraph and tensor. `handles` are the constants for resources, `resources`
    the resources for these constants. `types` are the types of the first assignments to resources,
    `state_rows` the rows of variable tensors in this batch. `initial_values` are the values before the first
    run; the subgraphs in `done_once` assign them. `tables` are the imported contents. `unfolding` counts
    constants that unfold, `operators` what was read. `repeated` counts what is read again of subgraphs in
    `begun`, which were read before. `entered` are the subgraphs that others call. `latest` are the last graph
    for which again() was called, and its context.
    """

    file: TfliteFile
    custom: Mapping[str, CustomOperator]
    as_stored: bool = True
    limits: Limits = UNLIMITED
    unsupported: Refusals = field(init=False)
    constants: dict[tuple[int, int], Operand] = field(default_factory=dict)
    handles: dict[Variable | Table, Operand] = field(default_factory=dict)
    resources: dict[Operand, Variable | Table] = field(default_factory=dict)
    tables: dict[Table, Contents] = field(default_factory=dict)
    initial_values: dict[Key, Array] = field(default_factory=dict)
    types: dict[Variable, TensorType] = field(default_factory=dict)
    state_rows: dict[Key, int] = field(default_factory=dict)
    done_once: set[int] = field(default_factory=set)
    unfolding: Unfolding = field(init=False)
    begun: set[int] = field(default_factory=set)
    entered: dict[int, FileGraph] = field(default_factory=dict)
    repeated: int = 0
    operators: int = 0
    latest: tuple[Graph, Context] | None = None

    def __post_init__(self) -> None:
        self.unsupported = Refusals(self.file.name)
        self.unfolding = Unfolding(len(self.file.data), self.unsupported, self.limits)

    def again(self, graph: Graph) -> Context:
        """Return the context of adding operators to another graph, where shapes are others than the file's.

        All operators of a graph share one, and its bounds.
        """
        latest = self.latest  # other threads may change it
        if latest is None or latest[0] is not graph:
            context = replace(self, as_stored=False, begun=set(), repeated=0, operators=0, latest=None)
            latest = self.latest = graph, context
        return latest[1]

    def handle(self, resource: Variable | Table) -> Operand:
        """Return the constant that stands for a resource, which only operators of resources understand."""
        if resource not in self.handles:
            number = np.array(len(self.handles), np.int32)
            handle = Operand(str(resource), TensorType(DType.INT32, ()), Lifetime.CONSTANT, number)
            self.handles[resource] = handle
            self.resources[handle] = resource
        return self.handles[resource]

    def initial(self, key: Key) -> tuple[str, TensorType, Array]:
        """Return the name and type of what keeps state, and what it holds before the first run."""
        if isinstance(key, Variable):
            if key not in self.initial_values:
                raise RefusedError(f"variable {str(key)!r} may be read before anything is assigned to it")
            return str(key), self.types[key], self.initial_values[key]
        tensor = self.file.graph(key[0]).tensors[key[1]]
        if tensor.type is None:  # an output: operators do not read such a tensor
            raise UnsupportedError(f"{self.file.name}: {tensor} is {tensor.type_name}")
        bounded(tensor.name, tensor.type)
        value, type = self.value(tensor), tensor.type
        if value is None and type.dtype is DType.STRING:
            self.file.fail(f"{tensor} is {type}: variables of strings have no first value")
        if value is None:
            if type.rank:
                type = type.with_shape((self.state_rows.get(key, type.shape[0]), *type.shape[1:]))
            # In LiteRT, those of UINT8 are not zero points.
            value = zeros(replace(type, quantization=None) if tensor.dtype is DType.UINT8 else type)
        return tensor.name, type, value

    def value(self, tensor: FileTensor) -> Array | None:
        """Return what the file holds of a tensor, within bounds where that unfolds."""
        if tensor.type is not None and (tensor.sparsity is not None or tensor.bits):
            self.unfolding.count(tensor.type.nbytes, str(tensor))
        return self.file.value(tensor)

    def enter(self, index: int, path: Sequence[int]) -> FileGraph:
        """Return a subgraph that subgraphs `path` call, each the next; FormatError when that has no end."""
        if index in path:
            self.file.fail(f"subgraph {index} calls itself, by way of {list(path)}")
        if len(path) == MAX_DEPTH:
            self.file.fail(f"subgraphs call one another {len(path)} deep, at most {MAX_DEPTH - 1} are read")
        if index not in self.entered:
            self.entered[index] = with_list_writes(self.file.graph(index), self.file.value)
        return self.entered[index]

    def begin(self, graph: FileGraph) -> bool:
        """Tell whether a subgraph has been read before; then it counts.

        Raises LimitError for more operators than are allowed.
        """
        self.operators += len(graph.operators)
        counted = f"{self.file.name}: has {self.operators} operators, those of {graph} included"
        self.limits.check("operators", self.operators, counted)
        again = graph.index in self.begun
        self.begun.add(graph.index)
        if again:
            self.count(len(graph.inputs) + len(graph.outputs))
        return again

    def count(self, entries: int) -> None:
        """Count entries of subgraphs as read again; FormatError when a small file asks for too many."""
        self.repeated += entries
        if self.repeated > MAX_REPEATED:
            self.file.fail(f"calls its subgraphs too often, {self.repeated} entries of them are read again")
