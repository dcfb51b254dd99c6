"""The shader of a loop, written operation by operation: where operands lie, calls of kernels, barriers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpunn.backends.webgpu.loop_memory import LoopMemory, begin_of_view, count_words, overwriting
from gpunn.backends.webgpu.loop_shader import (
    FOURS,
    WIDTH,
    Variant,
    functions,
    unbound,
    words,
    workgroup_bytes,
)
from gpunn.backends.webgpu.loop_words import packing, unpacking
from gpunn.backends.webgpu.shader import key_of, ordered_params, source, target
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Param, Read, Scratch, Unsupported, Write, ceil_div
from gpunn.types import DType, TensorType

MAX_WORK = 1 << 10  # workgroups of WIDTH times loop iterations of a round; more is quicker in dispatches


@dataclass(slots=True)
class Writer:
    """Writes the shader of a loop: first what the condition computes, if it is asked, then the body.

    `width` is that of the workgroup, `fours` tells whether it has a binding more for the constants.
    `iterations` are those of loops in a round, `work` the invocations of its kernels times their iterations,
    in workgroups of WIDTH.
    """

    loop: Operation
    condition: Graph | None
    body: Graph
    width: int = WIDTH
    fours: bool = True
    iterations: int = 4
    work: int = 0
    _memory: LoopMemory = field(default_factory=LoopMemory)
    _prefixes: dict[Variant, str] = field(default_factory=dict)
    _texts: list[str] = field(default_factory=list)
    _steps: list[str] = field(default_factory=list)
    _read: set[int] = field(default_factory=set)  # since the last barrier, as _written
    _written: set[int] = field(default_factory=set)
    _overwriting: Mapping[Operation, Operand] = field(default_factory=dict)
    _decision: Sequence[str] = ("return true;",)
    _scratch: Scratch | None = None
    _finished: str = ""
    _reads: tuple[Read, ...] = ()

    def __post_init__(self) -> None:
        asked = () if self.condition is None else self.condition.operations
        if self.condition is not None:
            for asked_input, operand in zip(self.condition.inputs, self.body.inputs, strict=True):
                self._memory.alias(asked_input, operand)
        for operation in (*asked, *self.body.operations):
            if operation.definition.alias and operation.inputs[0] is not None:
                self._memory.alias(operation.outputs[0], operation.inputs[0])
        for operand in self.body.inputs:
            self._memory.place(operand)
        self._overwriting = overwriting(self.body)
        for operation, operand in self._overwriting.items():
            self._memory.share(operation.outputs[0], operand)

    def operations(self, graph: Graph, lowered: Mapping[Operation, Sequence[Kernel]]) -> None:
        """Append the operations of a graph."""
        for operation in graph.operations:
            if operation.definition.alias:
                continue
            kernels = lowered[operation][operation in self._overwriting :]
            alone = len({target(k.writes[0], operation) for k in kernels}) == len(kernels)
            for kernel in kernels:
                if 0 not in kernel.groups and not (alone and self._is_view(operation, kernel)):
                    self._call(operation, kernel)

    def _is_view(self, operation: Operation, kernel: Kernel) -> bool:
        """Tell whether a kernel, its result's only one, need not run: the result lies in what it copies."""
        begin = begin_of_view(kernel)
        given, result = source(kernel.reads[0], operation), target(kernel.writes[0], operation)
        if begin is None or not isinstance(given, Operand) or not isinstance(result, Operand):
            return False
        whole = result.type.size == kernel.params["count"] * kernel.lanes
        if not whole or given.type.dtype is not result.type.dtype or operation in self._overwriting:
            return False
        if self._memory.root(given).value is not None:
            return False
        self._memory.share(result, given, begin * words(given.type.dtype))
        return True

    def decide(self, decision: Operand) -> None:
        """Let what has been appended be the condition, which comes to this operand."""
        known = self._memory.root(decision).value
        if known is not None:
            self._decision = [f"return {str(bool(known.item())).lower()};"]
            return
        place = self._memory.place(decision)
        kept = f"if (local.x == 0u) {{ decision = memory_data[{place}u]; }}"
        self._decision = [
            *self._steps,
            "storageBarrier();",
            kept,
            "return workgroupUniformLoad(&decision) != 0;",
        ]
        self._steps = []
        self._read, self._written = set(), set()

    def _call(self, operation: Operation, kernel: Kernel) -> None:
        """Append the call of a kernel, which runs its workgroups one after the other."""
        places: dict[str, int] = {}
        constants: set[str] = set()
        read: set[int] = set()
        for operand in (r for r in kernel.reads if r.present):
            place, constant = self._source(operation, operand)
            places[operand.name] = place
            (constants if constant else set()).add(operand.name)
            if not constant:
                read.add(place)
        written = {w.name: self._memory.place(target(w, operation)) for w in kernel.writes}
        variant = Variant(unbound(key_of(kernel, operation)), frozenset(constants), self.fours)
        prefix = self._prefix(variant)
        self._order(read, {*written.values()})
        lines = [f"{prefix}{name}_at = {place}u;" for name, place in {**places, **written}.items()]
        if kernel.params:
            numbers = ", ".join(_literal(value) for _, value in ordered_params(kernel))
            lines.append(f"{prefix}p = {prefix}P({numbers});")
        lines.append(self._groups(kernel, prefix))
        self._steps.append(" ".join(lines))

    def _groups(self, kernel: Kernel, prefix: str) -> str:
        """Write the call of a kernel for each of its workgroups.

        Their numbers come from the table: Mesa unrolls loops of known length, and then compiles for long.
        """
        groups = kernel.groups
        at = ", ".join(axis if count > 1 else "0u" for axis, count in zip("xyz", groups, strict=True))
        all_groups = ", ".join(f"{count}u" for count in groups)
        call = f"{prefix}main({prefix}Invocation(vec3<u32>({at}), vec3<u32>({all_groups}), local));"
        total = math.prod(groups)
        if total > 1 and not kernel.any_width and "var<workgroup>" in self._texts[int(prefix[1:-1])]:
            call += " workgroupBarrier();"
        for axis, count in zip("xyz", groups, strict=True):
            if count > 1:
                end = self._memory.constant(np.array([count], np.int32))
                call = f"for (var {axis} = 0u; {axis} < entry({end}u); {axis}++) {{ {call} }}"
        self.work += ceil_div(total * self.width, WIDTH) * (1 + kernel.loop_iterations)
        if self.work > MAX_WORK:
            raise Unsupported("a round is more than one workgroup should do")
        self.iterations += total * (kernel.loop_iterations + 3) + 3
        return call

    def _prefix(self, variant: Variant) -> str:
        """Return the prefix of the names of a shader in this one."""
        if variant not in self._prefixes:
            prefix = f"k{len(self._prefixes)}_"
            self._texts.append(functions(variant, prefix))
            self._prefixes[variant] = prefix
        return self._prefixes[variant]

    def _order(self, read: set[int], written: set[int]) -> None:
        """Append a barrier if what follows depends on what is before it."""
        read = set(map(self._memory.whole, read))
        if read & self._written or written & (self._written | self._read):
            self._steps.append("storageBarrier();")
            self._read, self._written = set(), set()
        self._read |= read
        self._written |= written

    def hand_on(self) -> None:
        """Append what gives the state of a round to the next one."""
        pairs = list(zip(self.body.inputs, self.body.outputs, strict=True))
        targets = {self._memory.place(i) for i, o in pairs if i is not o}
        moves: list[tuple[int, int, int]] = []
        for operand, result in pairs:
            known, to = self._memory.root(result).value, self._memory.place(operand)
            if known is not None:
                moves.append((to, -1 - self._memory.constant(known), count_words(operand)))
                continue
            place = self._memory.place(result)
            if self._memory.whole(place) in targets and place != to:  # another move would overwrite it
                aside = self._memory.take(count_words(operand))
                self._move(aside, place, count_words(operand))
                place = aside
            if place != to:
                moves.append((to, place, count_words(operand)))
        for to, place, count in moves:
            self._move(to, place, count)
        self._steps.append("storageBarrier();")

    def _move(self, to: int, place: int, count: int) -> None:
        """Append a copy of words in memory, or of constants from place -1 - `place` on."""
        self._order({place} if place >= 0 else set(), {to})
        name, begin = ("copy", place) if place >= 0 else ("take", -1 - place)
        self._steps.append(f"{name}_words({to}u, {begin}u, {count}u, local.x);")
        self.iterations += ceil_div(count, self.width) + 3

    @property
    def iterations_once(self) -> int:
        """Count the iterations of what happens before and after all rounds."""
        return sum(ceil_div(count_words(i), self.width) + 3 for i in (*self.body.inputs, *self.body.inputs))

    @property
    def shared_bytes(self) -> int:
        """Return the most bytes of workgroup memory that its shaders take."""
        return sum(map(workgroup_bytes, self._texts))

    def kernel(self, rounds: int, first: bool, last: bool) -> Kernel:
        """Return the dispatch of some rounds."""
        if self._scratch is None:
            self._finish()
        assert self._scratch is not None
        outputs = range(len(self.loop.outputs))
        writes = (Write("memory", self._scratch), *(Write(f"y{k}", k) for k in outputs))
        return Kernel(
            body="loop",
            threads=(self.width, 1, 1),
            workgroup=(self.width, 1, 1),
            reads=self._reads,
            writes=writes,
            params={"rounds": rounds, "first": int(first), "last": int(last)},
            workgroup_bytes=self.shared_bytes,
            loop_iterations=rounds * self.iterations + self.iterations_once,
            generated=self._finished,
            reason=f"one workgroup runs {rounds} rounds",
        )

    def _finish(self) -> None:
        """Put the whole shader together."""
        self._scratch = Scratch(TensorType(DType.INT32, (self._memory.size,)))
        starts, reads = [], []
        for k, (operand, start) in enumerate(zip(self.body.inputs, self.loop.inputs, strict=True)):
            assert start is not None
            place, count = self._memory.place(operand), operand.type.size
            if start.value is not None:
                known = self._memory.constant(start.value)
                starts.append(f"take_words({place}u, {known}u, {count_words(operand)}u, local.x);")
            elif count:
                reads.append(Read(f"x{k}", k))
                starts.append(_each(unpacking(operand.type.dtype, f"x{k}_data", place), count))
        flags = len(self.loop.outputs) - len(self.body.inputs)  # of some_rounds, whether there are more
        ends = ["if (local.x == 0u) { y0_data[0] = select(0u, 1u, more); }"] * flags
        ends += [
            _each(packing(o.type.dtype, f"y{k + flags}_data", self._memory.place(o)), _stores(o))
            for k, o in enumerate(self.body.inputs)
        ]
        table = self._memory.table()
        self._reads = (*reads, Read("table", None, value=table))
        if any(f"{FOURS}_data" in text for text in self._texts):
            self._reads = (*self._reads, Read(FOURS, None, 4, value=table))
        parts = (
            ("begin_loop(local: vec3<u32>)", starts),
            ("goes_on(local: vec3<u32>) -> bool", self._decision),
            ("run_round(local: vec3<u32>)", self._steps),
            ("end_loop(local: vec3<u32>, more: bool)", ends),
        )
        listed = (f"fn {head} {{\n  {_lines(steps)}\n}}" for head, steps in parts)
        shared = "var<workgroup> decision: i32;"
        self._finished = "\n".join((shared, *listed, *self._texts, ""))

    def _source(self, operation: Operation, read: Read) -> tuple[int, bool]:
        """Return the place of what a kernel reads, and whether it is a constant."""
        operand = source(read, operation)
        if isinstance(operand, Scratch):
            return self._memory.place(operand), False
        if operand is not None and operand.value is None:
            known = self._memory.root(operand).value
            if known is not None:
                return self._memory.constant(known), True
            return self._memory.place(operand), False
        others = (operation.inputs[k] if k < len(operation.inputs) else None for k in read.also)
        used = () if operand is None else (operand, *others)
        values = [None if o is None else o.value for o in used] or [read.value]
        value = read.pack(*values) if read.pack else values[0]
        assert value is not None
        return self._memory.constant(value), True


def _stores(operand: Operand) -> int:
    """Return how many words a tensor has in a buffer of its own."""
    return ceil_div(operand.type.nbytes, 4) if operand.type.dtype is not DType.INT64 else operand.type.size


def _each(statement: str, count: int) -> str:
    return f"for (var i = local.x; i < {count}u; i += WX) {{ {statement} }}"


def _lines(steps: Iterable[str]) -> str:
    return "\n  ".join(steps)


def _literal(value: Param) -> str:
    """Write a parameter as WGSL."""
    if isinstance(value, tuple):
        kind, item = ("vec4<i32>", "{}") if len(value) == 4 else ("vec2<u32>", "{}u")
        return f"{kind}({', '.join(item.format(v) for v in value)})"
    if isinstance(value, float):
        return f"bitcast<f32>({np.float32(value).view(np.uint32)}u)"
    return f"{value}u"
