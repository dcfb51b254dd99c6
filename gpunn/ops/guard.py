"""Guard: the condition for the integers of an operand, checked on the host or on the device."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from gpunn.errors import ModelError
from gpunn.kernel import Kernel, Note, Read, Write, ceil_div, spans
from gpunn.ops.call import Call
from gpunn.types import Array, DType, TensorType

_FEW = 16
WORKGROUP = 256  # invocations that check the values on the device
ANY_NUMBER = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition for the integers of input `index`: along its last dimension they must be in `ranges`.

    Without ranges every integer is allowed. If there are `extents`, one for each range, numbers below 0 count
    from there: they are allowed if their sum with the extent is.

    Neither kernels nor references refuse a value. Constants are checked at compilation, inputs of the model
    before the run. Computed values are checked where they are computed: on the host before the reference, on
    the device by a kernel that notes the first wrong value. `what`: the name of the integers in the message.
    """

    index: int
    ranges: Callable[[Call], Sequence[range]]
    what: str = "indices"
    extents: Callable[[Call], Sequence[int]] | None = None

    def check(self, call: Call, value: Array) -> None:
        """Raise ModelError for the first number that is in none."""
        ranges = self.ranges(call)
        if not value.size or not ranges:
            return
        extents = self._extents(call)
        if value.size <= _FEW:  # numpy's calls take longer than looking at them
            listed = zip(
                value.reshape(-1).tolist(), itertools.cycle(zip(ranges, extents, strict=True)), strict=False
            )
            if all(number + (extent if number < 0 else 0) in allowed for number, (allowed, extent) in listed):
                return
        numbers = value.reshape(-1, len(ranges))
        if any(extents):
            numbers = np.where(numbers < 0, numbers + np.array(extents, np.int64), numbers)
        wrong = (numbers < [r.start for r in ranges]) | (numbers >= [r.stop for r in ranges])
        if wrong.any():
            place = int(np.argmax(wrong))
            self._refuse(call, place, value.flat[place])

    def _extents(self, call: Call) -> Sequence[int]:
        """Return what numbers below 0 get added, for each range."""
        return [0] * len(self.ranges(call)) if self.extents is None else self.extents(call)

    def kernels(self, call: Call) -> list[Kernel]:
        """Make the kernels that check the values on the device, each as many as its loops take."""
        most = call.device.max_loop_iterations
        parts = spans(call.input(self.index).size, None if most is None else WORKGROUP * most)
        return [self._kernel(call, part) for part in parts]

    def _kernel(self, call: Call, part: range) -> Kernel:
        ranges, dtype = self.ranges(call), call.input(self.index).dtype
        noted = TensorType(DType.INT64 if dtype is DType.INT64 else DType.INT32, (2,))
        bounds = [
            (max(r.start, -(2**31)), min(r.stop, 2**31) - 1, extent)
            for r, extent in zip(ranges, self._extents(call), strict=True)
        ]

        def judge(found: Array) -> None:
            place, number = found.tolist()
            if place >= 0:
                self._refuse(call, place, number)

        return Kernel(
            body="check_ranges",
            threads=(WORKGROUP, 1, 1),
            workgroup=(WORKGROUP, 1, 1),
            reads=(Read("x", self.index), Read("bound", None, value=np.array(bounds, np.int32))),
            writes=(Write("note", Note(noted, judge)),),
            params={"first": part.start, "end": part.stop, "ranges": len(ranges)},
            loop_iterations=ceil_div(len(part), WORKGROUP),
            reason=f"the first of the {self.what} that is out of range is noted",
        )

    def _refuse(self, call: Call, place: int, number: int) -> NoReturn:
        ranges = self.ranges(call)
        allowed, extent = ranges[place % len(ranges)], self._extents(call)[place % len(ranges)]
        first, most = allowed.start, allowed.stop - 1
        if first == ANY_NUMBER.start:
            bounds = f"at most {most}"
        elif extent in (0, len(allowed)):
            bounds = f"in {first - extent} ... {most}"
        else:
            bounds = f"in {first - extent} ... {most - extent} or {first} ... {most}"
        raise ModelError(f"{call.op}: {self.what} must be {bounds}, got {number}")
