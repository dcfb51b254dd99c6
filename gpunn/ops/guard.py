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

    Without ranges every integer is allowed.

    Neither kernels nor references refuse a value. Constants are checked at compilation, inputs of the model
    before the run. Computed values are checked where they are computed: on the host before the reference, on
    the device by a kernel that notes the first wrong value. `what`: the name of the integers in the message.
    """

    index: int
    ranges: Callable[[Call], Sequence[range]]
    what: str = "indices"

    def check(self, call: Call, value: Array) -> None:
        """Raise ModelError for the first number that is in none."""
        ranges = self.ranges(call)
        if not value.size or not ranges:
            return
        if value.size <= _FEW:  # numpy's calls take longer than looking at them
            listed = zip(value.reshape(-1).tolist(), itertools.cycle(ranges), strict=False)
            if all(number in allowed for number, allowed in listed):
                return
        numbers = value.reshape(-1, len(ranges))
        wrong = (numbers < [r.start for r in ranges]) | (numbers >= [r.stop for r in ranges])
        if wrong.any():
            place = int(np.argmax(wrong))
            self._refuse(call, place, value.flat[place])

    def kernels(self, call: Call) -> list[Kernel]:
        """Make the kernels that check the values on the device, each as many as its loops take."""
        most = call.device.max_loop_iterations
        parts = spans(call.input(self.index).size, None if most is None else WORKGROUP * most)
        return [self._kernel(call, part) for part in parts]

    def _kernel(self, call: Call, part: range) -> Kernel:
        ranges, dtype = self.ranges(call), call.input(self.index).dtype
        noted = TensorType(DType.INT64 if dtype is DType.INT64 else DType.INT32, (2,))
        bounds = [(max(r.start, -(2**31)), min(r.stop, 2**31) - 1) for r in ranges]

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
        allowed = ranges[place % len(ranges)]
        most = allowed.stop - 1
        bounds = f"at most {most}" if allowed.start == ANY_NUMBER.start else f"in {allowed.start} ... {most}"
        raise ModelError(f"{call.op}: {self.what} must be {bounds}, got {number}")
