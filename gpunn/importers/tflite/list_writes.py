"""Rows that are put into a list by cutting it in two and joining the parts around them.

A list of tensors of one shape (TensorFlow's TensorList, in which the loops of Keras collect their steps) is
a tensor in a file, and to set row i of it converters write: SLICE of the rows before i, SLICE of those from
i + 1 on, CONCATENATION of the first part, the row, and the second part. The shapes of both parts depend on
i, that of the result does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from gpunn.importers.tflite.node import Node, Options
from gpunn.importers.tflite.subgraph import FileGraph, FileOperator, FileTensor
from gpunn.types import Array, DType

# What such a CONCATENATION becomes: an operator with the inputs list, sizes of the first part, row, begins of
# the second one.
LIST_WRITE = "CONCATENATION of a list"
_RESHAPING = ("EXPAND_DIMS", "RESHAPE")
_PARTS = 3  # the rows before, the row, the rows behind


def with_list_writes(graph: FileGraph, value: Callable[[FileTensor], Array | None]) -> FileGraph:
    """Return the graph with LIST_WRITE in place of the operators that set a row; `value` reads constants."""
    if all(o.code != "CONCATENATION" or len(o.inputs) != _PARTS for o in graph.operators):
        return graph
    search = _Search.of(graph, value)
    found: dict[FileOperator, FileOperator] = {}
    gone: set[FileOperator] = set()
    for operator in graph.operators:
        parts = search.parts(operator)
        if parts is not None:
            before, behind = parts
            inputs = (before.inputs[0], before.inputs[2], operator.inputs[1], behind.inputs[1])
            found[operator] = replace(operator, code=LIST_WRITE, inputs=inputs)
            gone |= {before, behind}
    return replace(graph, operators=tuple(found.get(o, o) for o in graph.operators if o not in gone))


class _Search(NamedTuple):
    """A subgraph in which rows that are put into lists are looked for.

    `writers` has the operator of each tensor that one operator writes, `rewritten` the tensors that change,
    and `readers` says how many operators read each tensor.
    """

    graph: FileGraph
    value: Callable[[FileTensor], Array | None]
    writers: Mapping[int, FileOperator]
    rewritten: Set[int]
    readers: Mapping[int | None, int]

    @classmethod
    def of(cls, graph: FileGraph, value: Callable[[FileTensor], Array | None]) -> _Search:
        """Begin a search."""
        written = Counter([*graph.inputs, *(i for o in graph.operators for i in o.outputs)])
        rewritten = {i for i, count in written.items() if count > 1}
        rewritten |= {i for i, t in enumerate(graph.tensors) if t.is_variable}
        writers = {i: o for o in graph.operators for i in o.outputs if i not in rewritten}
        readers = Counter([*graph.outputs, *(i for o in graph.operators for i in o.inputs)])
        return cls(graph, value, writers, rewritten, readers)

    def parts(self, operator: FileOperator) -> tuple[FileOperator, FileOperator] | None:
        """Return the operators that cut the list for a CONCATENATION; None if that does something else."""
        if operator.code != "CONCATENATION" or len(operator.inputs) != _PARTS:
            return None
        before, behind = self._cut(operator.inputs[0]), self._cut(operator.inputs[2])
        if before is None or behind is None or before.inputs[0] != behind.inputs[0]:
            return None
        zeros, sizes = self._ints(before.inputs[1]), self._ints(behind.inputs[2])
        whole = zeros and not any(zeros) and {*sizes} == {-1} and before.inputs[0] not in self.rewritten
        options = _options(operator, "ConcatenationOptions")
        if not whole or options.get("Axis") != 0 or options.activation():
            return None
        row, rest = self._led(before.inputs[2])
        following, firsts = self._led(behind.inputs[1])
        if {*rest} - {-1} or any(firsts) or not self._follows(following, row):
            return None
        return before, behind

    def _cut(self, index: int | None) -> FileOperator | None:
        """Return the SLICE that writes a tensor which only one operator reads."""
        operator = self._writer(index)
        alone = operator is not None and len(operator.inputs) == _PARTS and self.readers[index] == 1
        return operator if operator is not None and alone and operator.code == "SLICE" else None

    def _writer(self, index: int | None) -> FileOperator | None:
        return None if index is None else self.writers.get(index)

    def _ints(self, index: int | None) -> list[int]:
        """Return the values of a constant of int32; none if it is computed."""
        computed = index is None or index in self.writers or index in self.rewritten
        if index is None or computed or index in self.graph.inputs:
            return []
        tensor = self.graph.tensors[index]
        found = self.value(tensor) if tensor.dtype is DType.INT32 and tensor.type is not None else None
        return [] if found is None else found.reshape(-1).tolist()

    def _led(self, index: int | None) -> tuple[int | None, Sequence[int]]:
        """Return the tensor that is the first number of a vector, and the constants behind it."""
        writer = self._writer(index)
        if writer is None or writer.code not in ("CONCATENATION", "PACK") or not writer.inputs:
            return self._number(index), ()
        others = [self._ints(i) for i in writer.inputs[1:]]
        return (self._number(writer.inputs[0]) if all(others) else None), [n for o in others for n in o]

    def _number(self, index: int | None) -> int | None:
        """Return the tensor of which this is another shape; None if that may change."""
        writer = self._writer(index)
        if writer is not None and writer.code in _RESHAPING and writer.inputs:
            index = writer.inputs[0]
        return None if index in self.rewritten else index

    def _follows(self, index: int | None, row: int | None) -> bool:
        """Tell whether a tensor is one more than another."""
        writer = self._writer(index)
        if row is None or writer is None or writer.code != "ADD" or len(writer.inputs) != len(("a", "b")):
            return False
        a, b = writer.inputs
        others = [self._ints(j) for i, j in ((a, b), (b, a)) if self._number(i) == row]
        return [1] in others and not _options(writer, "AddOptions").activation()


def _options(operator: FileOperator, table: str) -> Options:
    return Node(operator.place, (), (), operator.options_type, operator.options_table).options(table)
