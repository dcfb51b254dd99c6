"""The shader of a bundle: consecutive small dispatches of a plan that one workgroup runs, in one dispatch.

Their operands lie in a memory of the bundle, a word for each element. What others need of them is copied
from and to its place in an arena.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gpunn.backends.webgpu.bindings import Binding
from gpunn.backends.webgpu.calls import ZERO, Calls, synchronisation
from gpunn.backends.webgpu.loop_memory import LoopMemory, count_words
from gpunn.backends.webgpu.loop_shader import FOURS, MEMORY, TABLE
from gpunn.backends.webgpu.loop_words import packing, unpacking
from gpunn.backends.webgpu.shader import ShaderKey, source, target
from gpunn.backends.webgpu.statements import HOLE, Rounds, rolled, unsigned
from gpunn.device import DeviceProperties
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Scratch, Unsupported, ceil_div
from gpunn.planning.arenas import Slot
from gpunn.types import Array, DType

Tensor = Operand | Scratch
Dispatched = tuple[Operation, Kernel]
_WORD = 4  # bytes


@dataclass(frozen=True, slots=True)
class Bundle:
    """A pipeline, and the dispatches of it that run a bundle, as ranges of its rounds.

    `count` is the number of kernels that it runs. `words` are those of its memory, `arenas` the numbers of
    the arenas that it reads and writes, `table` the constants. `fours` tells whether the table is bound once
    more, by vectors. `statements`: how many its shader has.
    """

    key: ShaderKey
    ranges: tuple[tuple[int, int], ...]
    count: int
    words: int
    arenas: tuple[int, ...]
    table: Array
    fours: bool
    statements: int


def tensors(dispatched: Dispatched, memory: LoopMemory) -> tuple[list[Tensor], list[Tensor]]:
    """Return what a dispatch reads, without constants, and what it writes; of aliases, who owns the bytes."""
    operation, kernel = dispatched
    found = (source(read, operation) for read in kernel.reads if read.present)
    reads = [t for t in (_owner(t, memory) for t in found if t is not None) if not _known(t)]
    return reads, [_owner(target(write, operation), memory) for write in kernel.writes]


def _owner(tensor: Tensor, memory: LoopMemory) -> Tensor:
    return tensor if isinstance(tensor, Scratch) else memory.root(tensor)


def _known(tensor: Tensor) -> bool:
    return isinstance(tensor, Operand) and tensor.value is not None


@dataclass(slots=True)
class BundleWriter:
    """Writes a bundle of `dispatched`, kernels for workgroups of `width` invocations on a device.

    slots: the places of tensors in arenas. given: the tensors that are read there before the bundle writes
    them. kept: those that it has to write there.
    """

    memory: LoopMemory
    dispatched: Sequence[Dispatched]
    width: int
    device: DeviceProperties
    slots: Mapping[Tensor, Slot]
    given: Collection[Tensor]
    kept: Collection[Tensor]
    _calls: Calls = field(init=False)
    _arenas: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._calls = Calls(self.memory, self.width)

    def written(self, most: int | None) -> Bundle:
        """Return the bundle; a dispatch has up to `most` iterations of loops. Raises Unsupported."""
        for tensor in self.given:
            self._copy(tensor, back=False)
        writers = Counter(t for d in self.dispatched for t in tensors(d, self.memory)[1])
        writers.update((*self.given, *self.kept))
        for operation, kernel in self.dispatched:
            alone = len(kernel.writes) == 1 and kernel.writes[0].rows is None
            result = _owner(target(kernel.writes[0], operation), self.memory)
            if not (alone and writers[result] == 1 and self._calls.is_view(operation, kernel)):
                self._calls.call(operation, kernel)
        for tensor in self.kept:
            self._copy(tensor, back=True)
        parts = rolled(self._calls.statements)
        generated = self._shader(parts)
        fours = any(f"load4_{FOURS}(" in text for text in self._calls.texts)
        key = self._key(generated, fours)
        table = self.memory.table()
        ranges = tuple(_ranges(parts, most))
        statements = sum(part.period for part in parts)
        run = len(self.dispatched)
        return Bundle(key, ranges, run, self.memory.size, tuple(self._arenas), table, fours, statements)

    def _copy(self, tensor: Tensor, back: bool) -> None:
        """Append the copy of a tensor from its place in an arena to memory, or back."""
        slot, place, dtype = self.slots[tensor], self.memory.place(tensor), tensor.type.dtype
        arena = f"arena{self._arenas.setdefault(slot.arena, len(self._arenas))}_data"
        if dtype.numpy.itemsize >= _WORD:
            count = ceil_div(count_words(tensor), 4)
            sides = f"{MEMORY}_data[(place >> 2u) + i]", f"{arena}[(first >> 2u) + i]"
            statement = " = ".join(sides[::-1] if back else sides) + ";"
        elif back:
            count = ceil_div(tensor.type.nbytes, _WORD)
            word = f"bitcast<i32>({packing(dtype, 'place')})"
            statement = f"{arena}[(first + i) >> 2u][(first + i) & 3u] = {word};"
        else:
            count = tensor.type.size
            word = f"{arena}[(first + ({{0}})) >> 2u][(first + ({{0}})) & 3u]"
            statement = unpacking(dtype, word, "place")
        loop = f"for (var i = local.x; i < {HOLE}; i += WX) {{ {statement} }}"
        text = f"{{ let place = {HOLE}; let first = {HOLE}; {loop} }}"
        numbers = unsigned(place, slot.offset // _WORD, count)
        read, written = ({place}, set[int]()) if back else (set[int](), {place})
        self._calls.append(text, numbers, ceil_div(count, self.width) + 3, read, written)

    def _shader(self, parts: Sequence[Rounds]) -> str:
        """Write the functions of the bundle and its kernels."""
        lines = [self._calls.zero]
        begin = 0
        for part in parts:
            statements, rows = part.written(f"{TABLE}_data[row + {{}}u]")
            end = begin + part.count
            lines.append(f"for (var k = max(p.begin, {begin}u); k < min(p.end, {end}u + {ZERO}); k++) {{")
            if rows.size:
                place = self.memory.constant(rows)
                lines.append(f"let row = {place}u + (k - {begin}u) * {rows.shape[1]}u;")
            lines += [*statements, "}"]
            begin = end
        listed = "\n  ".join(lines)
        run = f"fn run_rounds(local: vec3<u32>) {{\n  {listed}\n}}"
        return "\n".join((synchronisation(self.width, self.device), run, *self._calls.texts, ""))

    def _key(self, generated: str, fours: bool) -> ShaderKey:
        """Return the key of the pipeline."""
        word = DType.INT32
        bindings = [Binding(TABLE, word, 1, stored=False, shared=False)]
        bindings += [Binding(FOURS, word, 4, stored=False, shared=False, wide=self.device.wide_words)] * fours
        names = (MEMORY, *(f"arena{k}" for k in self._arenas.values()))
        bindings += [Binding(name, word, 4, stored=True, shared=True) for name in names]
        return ShaderKey(
            body="bundle",
            workgroup=(self.width, 1, 1),
            bindings=tuple(bindings),
            params=(("begin", "u32"), ("end", "u32")),
            constants=(),
            functions=(),
            libraries=(),
            lanes=1,
            accumulator=None,
            generated=generated,
        )


def _ranges(parts: Sequence[Rounds], most: int | None) -> list[tuple[int, int]]:
    """Divide the rounds of all parts into ranges, each of up to `most` iterations."""
    rounds = [n for part in parts for n in part.iterations]
    if most is None:
        return [(0, len(rounds))]
    most -= sum(3 + max(part.iterations) for part in parts)  # what lavapipe counts of parts that do not run
    if max(rounds) > most:
        raise Unsupported("a round takes too many iterations of loops")
    ranges: list[tuple[int, int]] = []
    begin = total = 0
    for k, count in enumerate(rounds):
        if total + count > most:
            ranges.append((begin, k))
            begin, total = k, 0
        total += count
    return [*ranges, (begin, len(rounds))]
