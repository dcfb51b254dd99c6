"""The memory of a loop: where operands and constants of its body lie, in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from gpunn.backends.webgpu.loop_shader import words
from gpunn.backends.webgpu.loop_words import words_of
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Scratch, Unsupported, ceil_div
from gpunn.types import Array

MAX_WORDS = 1 << 24  # of all operands of a body, and of its constants


@dataclass(slots=True)
class _Places:
    """Places of arrays one behind another, in words; by fours."""

    size: int = 0

    def take(self, count: int) -> int:
        """Return a place for that many words. Raises Unsupported if there are too many."""
        place, self.size = self.size, self.size + ceil_div(max(count, 1), 4) * 4
        if self.size > MAX_WORDS:
            raise Unsupported(f"its operands are over {4 * MAX_WORDS} bytes")
        return place


@dataclass(slots=True)
class LoopMemory:
    """Places of operands in the memory of a loop, and of constants in its table. Aliases share a place."""

    _memory: _Places = field(default_factory=_Places)
    _table: _Places = field(default_factory=_Places)
    _constants: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _values: list[tuple[int, Array]] = field(default_factory=list)
    _slots: dict[Operand | Scratch, int] = field(default_factory=dict)
    _roots: dict[Operand, Operand] = field(default_factory=dict)
    _views: dict[int, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Return the words of all operands, at least 4."""
        return max(self._memory.size, 4)

    def table(self) -> Array:
        """Return the words of all constants, at least 4."""
        found = np.zeros(max(self._table.size, 4), np.int32)
        for place, value in self._values:
            found[place : place + value.size] = value
        return found

    def alias(self, result: Operand, source: Operand) -> None:
        """Let a result be the same bytes as its source."""
        self._roots[result] = self.root(source)

    def root(self, operand: Operand) -> Operand:
        """Return the operand whose bytes an operand is."""
        return self._roots.get(operand, operand)

    def share(self, result: Operand, source: Operand, offset: int = 0) -> None:
        """Put a result where its source lies, so many words behind its beginning."""
        begin = self.place(source)
        self._slots[result] = begin + offset
        if offset:
            self._views[begin + offset] = self.whole(begin)

    def whole(self, place: int) -> int:
        """Return the place of the operand that one lies in."""
        return self._views.get(place, place)

    def place(self, tensor: Operand | Scratch) -> int:
        """Return the place of a tensor. Raises Unsupported for complex numbers."""
        root = tensor if isinstance(tensor, Scratch) else self.root(tensor)
        if root not in self._slots:
            self._slots[root] = self.take(count_words(root))
        return self._slots[root]

    def take(self, count: int) -> int:
        """Return a place of its own for so many words."""
        return self._memory.take(count)

    def constant(self, value: Array) -> int:
        """Return the place of a constant in the table; equal ones share it."""
        found = words_of(value)
        key = value.dtype.str, found.tobytes()
        if key not in self._constants:
            self._constants[key] = self._table.take(found.size)
            self._values.append((self._constants[key], found))
        return self._constants[key]


def count_words(tensor: Operand | Scratch) -> int:
    """Return the words of a tensor in memory. Raises Unsupported for complex numbers."""
    return tensor.type.size * words(tensor.type.dtype)


def begin_of_view(kernel: Kernel) -> int | None:
    """Return the first element that a kernel copies, if it copies elements that lie side by side as they are;
    else None.
    """
    params, changed = kernel.params, kernel.functions or any(w.appended for w in kernel.writes)
    changed = changed or any(r.rows is not None for r in kernel.reads)  # its elements lie in another tensor
    if kernel.name != "strided_copy" or changed or len(kernel.reads) > 1 or params["y_start"]:
        return None
    size, begin = params["size"], params["x_start"]
    walks = {params[f"{name}_stride"] for name in "xy"}
    assert isinstance(size, tuple) and isinstance(begin, int)
    dense = params["size_hi"] == (1, 1, 1, 1) and size[:3] == (1, 1, 1) and walks == {(0, 0, 0, 1)}
    return begin * kernel.lanes if dense or params["count"] == 1 else None


def overwriting(body: Graph) -> dict[Operation, Operand]:
    """Return the operations that may write their result where their first operand lies: state that only they
    read, and of which they make the next round's.
    """
    readers = Counter(i for o in body.operations for i in o.inputs)
    readers.update(body.outputs)
    following = dict(zip(body.inputs, body.outputs, strict=True))
    return {
        operation: operand
        for operation in body.operations
        if (operand := operation.inputs[0]) is not None
        and readers[operand] == 1
        and not operation.definition.alias
        and following.get(operand) is operation.outputs[0]
        and operation.definition.overwrites
    }
