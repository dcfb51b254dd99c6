"""The shader of a loop, written operation by operation: where operands lie, calls of kernels, barriers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpunn.backends.webgpu.calls import Calls, synchronisation
from gpunn.backends.webgpu.loop_memory import LoopMemory, count_words, overwriting
from gpunn.backends.webgpu.loop_shader import FOURS, WIDTH
from gpunn.backends.webgpu.loop_words import packing, unpacking
from gpunn.backends.webgpu.shader import target
from gpunn.backends.webgpu.statements import BARRIER, written
from gpunn.device import DeviceProperties
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Read, Scratch, Unsupported, Write, ceil_div
from gpunn.types import DType, TensorType

MAX_WORK = 1 << 10  # workgroups of WIDTH times loop iterations of a round; more is quicker in dispatches


@dataclass(slots=True)
class Writer:
    """Writes the shader of a loop: first what the condition computes, if it is asked, then the body.

    `width` is that of the workgroup, `fours` tells whether it has a binding more for the constants.
    """

    loop: Operation
    condition: Graph | None
    body: Graph
    device: DeviceProperties
    width: int = WIDTH
    fours: bool = True
    _memory: LoopMemory = field(default_factory=LoopMemory)
    _calls: Calls = field(init=False)
    _overwriting: Mapping[Operation, Operand] = field(default_factory=dict)
    _decision: Sequence[str] = ("return true;",)
    _scratch: Scratch | None = None
    _finished: str = ""
    _reads: tuple[Read, ...] = ()

    def __post_init__(self) -> None:
        self._calls = Calls(self._memory, self.width, self.fours, iterations=4)
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

    @property
    def work(self) -> int:
        """Return what work_of() says of the kernels of a round."""
        return self._calls.work

    @property
    def iterations(self) -> int:
        """Count the iterations of loops in a round."""
        return self._calls.iterations

    @property
    def shared_bytes(self) -> int:
        """Return the most bytes of workgroup memory that its shaders take."""
        return self._calls.shared_bytes

    def operations(self, graph: Graph, lowered: Mapping[Operation, Sequence[Kernel]]) -> None:
        """Append the operations of a graph. Raises Unsupported if they are too much work."""
        for operation in graph.operations:
            if operation.definition.alias:
                continue
            overwrites = operation in self._overwriting
            kernels = lowered[operation][overwrites:]
            alone = len({target(k.writes[0], operation) for k in kernels}) == len(kernels)
            for kernel in kernels:
                view = alone and not overwrites
                if 0 not in kernel.groups and not (view and self._calls.is_view(operation, kernel)):
                    self._calls.call(operation, kernel)
                    if self.work > MAX_WORK:
                        raise Unsupported("a round is more than one workgroup should do")

    def decide(self, decision: Operand) -> None:
        """Let what has been appended be the condition, which comes to this operand."""
        known = self._memory.root(decision).value
        if known is not None:
            self._decision = [f"return {str(bool(known.item())).lower()};"]
            return
        place = self._memory.place(decision)
        asked = written(self._calls.statements)
        self._decision = [*asked, BARRIER, f"return is_set({place}u, local);"]
        self._calls.statements = []
        self._calls.forget()

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
                self._calls.move(aside, place, count_words(operand))
                place = aside
            if place != to:
                moves.append((to, place, count_words(operand)))
        for to, place, count in moves:
            self._calls.move(to, place, count)

    @property
    def iterations_once(self) -> int:
        """Count the iterations of what happens before and after all rounds."""
        return sum(ceil_div(count_words(i), self.width) + 3 for i in (*self.body.inputs, *self.body.inputs))

    def kernel(self, rounds: int, first: bool, last: bool) -> Kernel:
        """Return the dispatch of some rounds."""
        if self._scratch is None:
            self._finish()
        assert self._scratch is not None
        outputs = range(len(self.loop.outputs))
        writes = (
            Write("memory", self._scratch, 4, direct=True),
            *(Write(f"y{k}", k, direct=True) for k in outputs),
        )
        return Kernel(
            body="loop",
            threads=(self.width, 1, 1),
            workgroup=(self.width, 1, 1),
            reads=self._reads,
            writes=writes,
            params={"rounds": rounds, "first": int(first), "last": int(last)},
            workgroup_bytes=self.shared_bytes,
            loop_iterations=rounds * self.iterations + self.iterations_once,
            wide_words=self.device.wide_words,
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
                starts.append(_each(unpacking(operand.type.dtype, f"x{k}_data[{{}}]", f"{place}u"), count))
        flags = len(self.loop.outputs) - len(self.body.inputs)  # of some_rounds, whether there are more
        ends = ["if (local.x == 0u) { y0_data[0] = select(0u, 1u, more); }"] * flags
        ends += [
            _each(f"y{k + flags}_data[i] = {_packed(o, self._memory.place(o))};", _stores(o))
            for k, o in enumerate(self.body.inputs)
        ]
        zero = self._calls.zero
        table = self._memory.table()
        self._reads = (*reads, Read("table", None, value=table))
        if any(f"load4_{FOURS}(" in text for text in self._calls.texts):
            self._reads = (*self._reads, Read(FOURS, None, 4, value=table))
        parts = (
            ("begin_loop(local: vec3<u32>)", starts),
            ("goes_on(local: vec3<u32>) -> bool", (zero, *self._decision)),
            ("run_round(local: vec3<u32>)", (zero, *written(self._calls.statements), BARRIER)),
            ("end_loop(local: vec3<u32>, more: bool)", ends),
        )
        listed = (f"fn {head} {{\n  {_lines(steps)}\n}}" for head, steps in parts)
        first = synchronisation(self.width, self.device)
        self._finished = "\n".join((first, *listed, *self._calls.texts, ""))


def _stores(operand: Operand) -> int:
    """Return how many words a tensor has in a buffer of its own."""
    return ceil_div(operand.type.nbytes, 4) if operand.type.dtype is not DType.INT64 else operand.type.size


def _packed(operand: Operand, place: int) -> str:
    """Write word i of an operand in a buffer of its own, as the buffer has it."""
    word = packing(operand.type.dtype, f"{place}u")
    kinds = {DType.FLOAT32: "bitcast<f32>({})", DType.INT32: "bitcast<i32>({})"}
    return kinds.get(operand.type.dtype, "{}").format(word)


def _each(statement: str, count: int) -> str:
    return f"for (var i = local.x; i < {count}u; i += WX) {{ {statement} }}"


def _lines(steps: Iterable[str]) -> str:
    return "\n  ".join(steps)
