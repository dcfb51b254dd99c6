"""Calls of kernels in a shader that one workgroup runs: where their operands lie, barriers between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpunn.backends.webgpu.loop_memory import LoopMemory, begin_of_view
from gpunn.backends.webgpu.loop_shader import (
    WIDTH,
    Variant,
    functions,
    unbound,
    with_width,
    words,
    workgroup_bytes,
)
from gpunn.backends.webgpu.params import ordered_params
from gpunn.backends.webgpu.shader import key_of, source, target
from gpunn.backends.webgpu.statements import HOLE, Number, Statement, parameters, unsigned
from gpunn.device import SUBGROUP_BARRIERS, SUBGROUPS, DeviceProperties
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Read, Scratch, Unsupported, ceil_div

ZERO = "unknown_zero"  # see Calls.zero


def resized(operation: Operation, kernel: Kernel, width: int) -> Kernel:
    """Return a kernel of an operation for workgroups of that many invocations.

    Raises Unsupported for one that needs others, and for parts of operands.
    """
    reads, writes = kernel.reads, kernel.writes
    divided = any(r.window or r.segments for r in reads) or any(w.window or w.segments for w in writes)
    found = None if divided or kernel.unrolled else with_width(kernel, width)
    if found is None:
        raise Unsupported(f"{operation.op}: {kernel.name} needs other workgroups")
    return found


def work_of(kernel: Kernel) -> int:
    """Count the workgroups of a kernel, as of WIDTH invocations, times its loop iterations."""
    invocations = math.prod(kernel.groups) * kernel.workgroup[0]
    return ceil_div(invocations, WIDTH) * (1 + kernel.loop_iterations)


def synchronisation(width: int, device: DeviceProperties) -> str:
    """Write synchronise(), after which all of a workgroup see what its invocations have written, and
    is_set(place, local), which tells all of them the same: whether a word in memory is not 0.

    On lavapipe a barrier of the workgroup ends a coroutine, and all variables of the shader are in memory for
    its sake, which takes half as long again. A workgroup that is one subgroup computes in step without it.
    """
    least, _ = device.subgroup_sizes or (0, 0)
    if device.software and width <= least and device.features.issuperset((SUBGROUPS, SUBGROUP_BARRIERS)):
        wait = "subgroupBarrier();"
        decision = "return subgroupBroadcastFirst(memory_word(place)) != 0;"
        shared = ""
    else:
        wait = "storageBarrier();"
        kept = "if (local.x == 0u) { decision = memory_word(place); }"
        decision = f"{kept} return workgroupUniformLoad(&decision) != 0;"
        shared = "var<workgroup> decision: i32;\n"
    asked = f"fn is_set(place: u32, local: vec3<u32>) -> bool {{ {decision} }}"
    return f"{shared}fn synchronise() {{ {wait} }}\n{asked}"


def variant_of(operation: Operation, kernel: Kernel, memory: LoopMemory, fours: bool) -> Variant:
    """Return the variant of a kernel of an operation."""
    constants = (r.name for r in kernel.reads if r.present and _is_constant(source(r, operation), memory))
    return Variant(unbound(key_of(kernel, operation)), frozenset(constants), fours)


def _is_constant(tensor: Operand | Scratch | None, memory: LoopMemory) -> bool:
    return tensor is None or (isinstance(tensor, Operand) and memory.root(tensor).value is not None)


@dataclass(slots=True)
class Calls:
    """Collects statements that call kernels one after the other.

    `width` is that of the workgroup, `fours` tells whether it has a binding more for the constants.
    `iterations` are those of loops, `work` what work_of() says of the kernels.
    """

    memory: LoopMemory
    width: int = WIDTH
    fours: bool = True
    iterations: int = 0
    work: int = 0
    statements: list[Statement] = field(default_factory=list)
    _prefixes: dict[Variant, str] = field(default_factory=dict)
    _texts: list[str] = field(default_factory=list)
    _packed: dict[tuple[object, ...], int] = field(default_factory=dict)  # places of constants
    _read: set[int] = field(default_factory=set)  # since the last barrier, as _written
    _written: set[int] = field(default_factory=set)

    @property
    def zero(self) -> str:
        """Return the declaration of a zero that no compiler knows, for the functions that call kernels.

        Kernels with loops have parameters to which it is added, and bundles so many rounds: Mesa writes out
        short loops of known length, and compiles for a multiple of the time then.
        """
        return f"let {ZERO} = u32(entry({self.memory.constant(np.zeros(1, np.int32))}u));"

    @property
    def texts(self) -> Sequence[str]:
        """Return the functions of the kernels that are called."""
        return self._texts

    @property
    def shared_bytes(self) -> int:
        """Return the most bytes of workgroup memory that the kernels take."""
        return sum(map(workgroup_bytes, self._texts))

    def is_view(self, operation: Operation, kernel: Kernel) -> bool:
        """Tell whether a kernel, its result's only one, need not run: the result lies in what it copies."""
        begin = begin_of_view(kernel)
        given, result = source(kernel.reads[0], operation), target(kernel.writes[0], operation)
        if begin is None or not isinstance(given, Operand) or not isinstance(result, Operand):
            return False
        whole = result.type.size == kernel.params["count"] * kernel.lanes
        if not whole or given.type.dtype is not result.type.dtype:
            return False
        if self.memory.root(given).value is not None:
            return False
        offset = begin * words(given.type.dtype)
        if offset % 4:  # loads of four elements begin at multiples of four words
            return False
        self.memory.share(result, given, offset)
        return True

    def call(self, operation: Operation, kernel: Kernel) -> None:
        """Append the call of a kernel, which runs its workgroups one after the other.

        Raises Unsupported for a shader that has no form here.
        """
        prefix = self._prefix(variant_of(operation, kernel, self.memory, self.fours))
        places: dict[str, int] = {}
        read: set[int] = set()
        for operand in (r for r in kernel.reads if r.present):
            place, constant = self._source(operation, operand)
            places[operand.name] = place
            if not constant:
                read.add(place)
        written = {w.name: self.memory.place(target(w, operation)) for w in kernel.writes}
        lines = [f"{prefix}{name}_at = {HOLE};" for name in (*places, *written)]
        numbers = [*unsigned(*places.values(), *written.values())]
        if kernel.params:
            added = f" + {ZERO}" if kernel.loop_iterations else ""
            listed, found = parameters((value for _, value in ordered_params(kernel)), added)
            lines.append(f"{prefix}p = {prefix}P({listed});")
            numbers += found
        text, found = self._groups(kernel, prefix)
        self.work += work_of(kernel)
        rounds = math.prod(kernel.groups) * (kernel.loop_iterations + 3) + 3
        self.append(" ".join((*lines, text)), (*numbers, *found), rounds, read, {*written.values()})

    def move(self, to: int, place: int, count: int) -> None:
        """Append a copy of words in memory, or of constants from place -1 - `place` on."""
        name, begin = ("copy", place) if place >= 0 else ("take", -1 - place)
        text = f"{name}_words({HOLE}, {HOLE}, {HOLE}, local.x);"
        rounds = ceil_div(count, self.width) + 3
        self.append(text, unsigned(to, begin, count), rounds, {place} if place >= 0 else set(), {to})

    def forget(self) -> None:
        """Begin again: a barrier follows what has been appended."""
        self._read, self._written = set(), set()

    def append(
        self, text: str, numbers: tuple[Number, ...], iterations: int, read: set[int], written: set[int]
    ) -> None:
        """Append a statement, behind a barrier if it depends on what is before it.

        iterations: of its loops. read, written: places in memory.
        """
        read = set(map(self.memory.whole, read))
        barrier = bool(read & self._written or written & (self._written | self._read))
        if barrier:
            self.forget()
        self._read |= read
        self._written |= written
        self.iterations += iterations
        self.statements.append(Statement(text, numbers, iterations, barrier))

    def _groups(self, kernel: Kernel, prefix: str) -> tuple[str, tuple[Number, ...]]:
        """Write the call of a kernel for each of its workgroups, counted by the table: see zero."""
        groups = kernel.groups
        at = ", ".join(axis if count > 1 else "0u" for axis, count in zip("xyz", groups, strict=True))
        local = f"vec3<u32>({HOLE}, {HOLE}, {HOLE}), local"
        call = f"{prefix}main({prefix}Invocation(vec3<u32>({at}), {local}));"
        numbers = unsigned(*groups)
        if not kernel.any_width and "var<workgroup>" in self._texts[int(prefix[1:-1])]:
            call += " workgroupBarrier();"  # before the next call writes there
        for axis, count in zip("xyz", groups, strict=True):
            if count > 1:
                end = self.memory.constant(np.array([count], np.int32))
                call = f"for (var {axis} = 0u; {axis} < u32(entry({HOLE})); {axis}++) {{ {call} }}"
                numbers = (*unsigned(end), *numbers)
        return call, numbers

    def _prefix(self, variant: Variant) -> str:
        """Return the prefix of the names of a shader in this one."""
        if variant not in self._prefixes:
            prefix = f"k{len(self._prefixes)}_"
            self._texts.append(functions(variant, prefix))
            self._prefixes[variant] = prefix
        return self._prefixes[variant]

    def _source(self, operation: Operation, read: Read) -> tuple[int, bool]:
        """Return the place of what a kernel reads, and whether it is a constant."""
        operand = source(read, operation)
        if isinstance(operand, Scratch):
            return self.memory.place(operand), False
        if operand is not None and operand.value is None:
            known = self.memory.root(operand).value
            if known is not None:
                return self.memory.constant(known), True
            return self.memory.place(operand), False
        others = (operation.inputs[k] if k < len(operation.inputs) else None for k in read.also)
        used = () if operand is None else (operand, *others)
        values = [None if o is None else o.value for o in used] or [read.value]
        key = read.pack, *map(id, values)
        if key not in self._packed:
            value = read.pack(*values) if read.pack else values[0]
            assert value is not None
            self._packed[key] = self.memory.constant(value)
        return self._packed[key], True
