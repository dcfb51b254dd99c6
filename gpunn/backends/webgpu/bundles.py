"""Bundles: consecutive small dispatches of a plan that are worth running as one.

Unrolled recurrent layers are hundreds of small operations, and a dispatch of each takes longer than its work.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from gpunn.backends.webgpu.bundle_writer import Bundle, BundleWriter, Dispatched, Tensor, tensors
from gpunn.backends.webgpu.calls import resized, variant_of, work_of
from gpunn.backends.webgpu.loop_memory import LoopMemory
from gpunn.backends.webgpu.loop_shader import NARROW, WIDTH, Variant, has_form
from gpunn.backends.webgpu.shader import source
from gpunn.backends.webgpu.statements import Statement, rolled
from gpunn.device import DeviceProperties
from gpunn.kernel import Kernel, Scratch, Unsupported
from gpunn.planning.arenas import Slot
from gpunn.planning.partition import written_by
from gpunn.planning.plan import Plan
from gpunn.types import DType

LEAST = 16  # dispatches of a bundle: its shader takes 0.1 s to compile, and saves some us for each of them
LEAST_SAVED = 2  # dispatches for each statement of the shader, on average
MAX_ALONE = 32  # consecutive dispatches that do not repeat: all of them are written into the shader
# What a dispatch may do in a bundle, in workgroups times loop iterations (work_of): one workgroup does it
# all, where another dispatch has more of them. On software these are cores, and a dispatch takes 10 us.
MAX_WORK = 8
MAX_WORK_ON_SOFTWARE = 128
MAX_WORDS = 1 << 16  # of a bundle's memory, where each tensor has a place of its own, unlike in arenas

_WORDS = (DType.FLOAT32, DType.INT32)
Unit = Dispatched | Bundle


def bundled(
    recipes: Sequence[Sequence[Dispatched]],
    plan: Plan,
    slots: Mapping[Tensor, Slot],
    arenas: Sequence[int],
    device: DeviceProperties,
) -> list[list[Unit]]:
    """Return what each segment of a plan dispatches, in order: single kernels, and bundles of them.

    arenas: their bytes.
    """
    bundles = _Bundles(plan, slots, arenas, device)
    if all(sum(map(bundles.is_small, recipe)) < LEAST for recipe in recipes):
        return [[*recipe] for recipe in recipes]
    bundles.look_at([dispatched for recipe in recipes for dispatched in recipe])
    units: list[list[Unit]] = []
    begin = 0
    for recipe in recipes:
        units.append([*bundles.units(begin, begin + len(recipe))])
        begin += len(recipe)
    return units


@dataclass(slots=True)
class _Bundles:
    """Finds the bundles of a plan whose tensors have these places."""

    plan: Plan
    slots: Mapping[Tensor, Slot]
    arenas: Sequence[int]
    device: DeviceProperties
    _all: Sequence[Dispatched] = ()
    _memory: LoopMemory = field(default_factory=LoopMemory)
    _last_read: dict[Tensor, int] = field(default_factory=dict)
    _written: dict[Tensor, tuple[int, int]] = field(default_factory=dict)  # first and last number
    _kept: set[Tensor] = field(default_factory=set)
    _resized: dict[int, Kernel] = field(default_factory=dict)  # by the id of the kernel
    _variants: dict[Variant, str] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Return the invocations of the workgroup."""
        return NARROW if self.device.software else WIDTH

    def is_small(self, dispatched: Dispatched) -> bool:
        """Tell whether a dispatch may be in a bundle, as far as its work tells."""
        most = MAX_WORK_ON_SOFTWARE if self.device.software else MAX_WORK
        return work_of(dispatched[1]) <= most

    def look_at(self, dispatches: Sequence[Dispatched]) -> None:
        """Note who reads and writes what in all dispatches of a run."""
        self._all = dispatches
        self._memory = self._new_memory()
        for number, dispatched in enumerate(dispatches):
            reads, writes = tensors(dispatched, self._memory)
            self._last_read.update(dict.fromkeys(reads, number))
            for tensor in writes:
                self._written[tensor] = (self._written.get(tensor, (number,))[0], number)
        read_back = (tensor for segment in self.plan.segments for tensor in segment.readbacks)
        self._kept = {*read_back, *self.plan.device_updates.values(), *map(self.plan.root, self.plan.held)}

    def units(self, begin: int, end: int) -> Iterator[Unit]:
        """Yield what runs of the dispatches from `begin` to `end`."""
        keys = [self._key(self._all[k]) for k in range(begin, end)]
        place = begin
        for first, last in _repeating(keys):
            bundle = self._bundle(begin + first, begin + last)
            if bundle is not None:
                yield from self._all[place : begin + first]
                yield bundle
                place = begin + last
        yield from self._all[place:end]

    def _bundle(self, begin: int, end: int) -> Bundle | None:
        """Return a bundle of consecutive dispatches; None if there cannot be one."""
        inside = [(o, self._resized[id(kernel)]) for o, kernel in self._all[begin:end]]
        given: dict[Tensor, None] = {}
        kept: dict[Tensor, None] = {}
        for dispatched in inside:
            reads, writes = tensors(dispatched, self._memory)
            given.update(dict.fromkeys(t for t in (*reads, *writes) if self._is_from_outside(t, begin, end)))
            kept.update(
                dict.fromkeys(t for t in writes if t in self._kept or self._last_read.get(t, -1) >= end)
            )
        writer = BundleWriter(
            self._new_memory(), inside, self.width, self.device, self.slots, [*given], [*kept]
        )
        most = self.device.max_loop_iterations
        with suppress(Unsupported):
            bundle = writer.written(None if most is None else most // 2)
            if self._fits(bundle) and LEAST_SAVED * bundle.statements <= len(inside):
                return bundle
        return None

    def _fits(self, bundle: Bundle) -> bool:
        """Tell whether a bundle has little memory, and the device can bind its buffers, whole arenas."""
        most = self.device.limit("max-storage-buffer-binding-size")
        few = len(bundle.key.bindings) <= self.device.most_bindings
        small = bundle.words <= MAX_WORDS
        return few and small and all(self.arenas[k] <= most for k in bundle.arenas)

    def _is_from_outside(self, tensor: Tensor, begin: int, end: int) -> bool:
        """Tell whether somebody else writes a tensor, too."""
        first, last = self._written.get(tensor, (-1, -1))
        return not (begin <= first and last < end)

    def _key(self, dispatched: Dispatched) -> str:
        """Return a text that is the same for dispatches whose calls are written alike; "" if it has none."""
        operation, kernel = dispatched
        operands = (*(source(read, operation) for read in kernel.reads), *written_by(operation, kernel))
        if not self.is_small(dispatched) or not all(map(self._is_plain, operands)):
            return ""
        try:
            found = self._resized[id(kernel)] = resized(operation, kernel, self.width)
        except Unsupported:
            return ""
        variant = variant_of(operation, found, self._memory, fours=True)
        if variant not in self._variants:
            self._variants[variant] = f"{len(self._variants)}" if has_form(variant) else ""
        number = self._variants[variant]
        return number and f"{number} {[count > 1 for count in found.groups]}"

    def _is_plain(self, operand: Tensor | None) -> bool:
        """Tell whether an operand has the words that the owner of its bytes has in memory."""
        if operand is None or isinstance(operand, Scratch):
            return True
        types = {operand.type.dtype, self._memory.root(operand).type.dtype}
        return len(types) == 1 or types.issubset(_WORDS)

    def _new_memory(self) -> LoopMemory:
        memory = LoopMemory()
        for operand, root in self.plan.roots.items():
            memory.alias(operand, self.plan.root(root))
        return memory


def _repeating(keys: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield ranges of dispatches that mostly repeat, by their keys; those without a key are in none."""
    place = 0
    for has_keys, group in itertools.groupby(keys, bool):
        run = [*group]
        if has_keys and len(run) >= LEAST:
            yield from ((place + begin, place + end) for begin, end in _mostly_repeating(run))
        place += len(run)


def _mostly_repeating(keys: Sequence[str]) -> Iterator[tuple[int, int]]:
    begin = place = 0
    for part in rolled([Statement(key) for key in keys]):
        if part.count == 1 and part.period > MAX_ALONE:
            if place - begin >= LEAST:
                yield begin, place
            begin = place + part.period
        place += len(part.statements)
    if place - begin >= LEAST:
        yield begin, place
