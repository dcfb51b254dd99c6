"""Operations on tensors over the limit of a binding: kernels for ranges of rows, each bound by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gpunn.device import DeviceProperties
from gpunn.kernel import Kernel, Kernels, Read, Write
from gpunn.ops.call import Call
from gpunn.ops.parts import Divide, Part, row_axis
from gpunn.types import TensorType

MAX_PARTS = 256  # of one operation: more dispatches than that take longer than the host

Choose = Callable[[Call, Kernels], Sequence[Kernel] | str]


def in_parts(
    call: Call, divide: Divide, kernel: Callable[[Call], Kernels], choose: Choose
) -> tuple[Kernel, ...]:
    """Return kernels that compute an operation in parts, whose tensors fit the bindings of the device.

    Nothing if the operation cannot be divided so. `choose` chooses the kernels of a part.
    """
    device, extent = call.device, call.y.shape[row_axis(call.y.shape)] if call.y.rank else 0
    one = divide(call, 0, min(1, extent))
    if one is None:
        return ()
    step = _aligned_rows(call, one)
    count = extent // step * step
    while count >= step and extent <= count * MAX_PARTS:
        parts = list(_parts(call, divide, extent, count))
        if not parts or any(found is None for found in parts):
            return ()
        if all(_fits(call, found, device) for found in parts if found is not None):
            return _kernels(call, [p for p in parts if p is not None], kernel, choose, count)
        count = count // 2 // step * step
    return ()


def _parts(call: Call, divide: Divide, extent: int, count: int) -> Iterator[Part | None]:
    """Yield the parts of `count` rows, up to one that cannot be."""
    for first in range(0, extent, count):
        yield divide(call, first, min(first + count, extent))


def _aligned_rows(call: Call, one: Part) -> int:
    """Return the least number of rows that end where a binding may begin, in all tensors that are divided."""
    alignment = call.device.limit("min-storage-buffer-offset-alignment")
    inputs = zip(call.inputs, one.firsts, strict=True)
    divided = [call.y, *(t for t, first in inputs if t is not None and first is not None)]
    return math.lcm(*(alignment // math.gcd(alignment, _row_bytes(t)) for t in divided))


def _row_bytes(type: TensorType) -> int:
    return type.nbytes // type.shape[row_axis(type.shape)]


def _fits(call: Call, part: Part, device: DeviceProperties) -> bool:
    """Tell whether the tensors of a part can be bound: by size, and by where they begin."""
    most = device.limit("max-storage-buffer-binding-size")
    alignment = device.limit("min-storage-buffer-offset-alignment")
    pairs = zip(call.inputs, part.firsts, strict=True)
    aligned = all(first * _row_bytes(t) % alignment == 0 for t, first in pairs if t is not None and first)
    types = (*part.call.inputs, *part.call.outputs)
    return aligned and all(t.nbytes <= most for t in types if t is not None)


def _kernels(
    call: Call, parts: Sequence[Part], kernel: Callable[[Call], Kernels], choose: Choose, count: int
) -> tuple[Kernel, ...]:
    found: list[Kernel] = []
    for number, each in enumerate(parts):
        chosen = choose(each.call, kernel(each.call))
        if isinstance(chosen, str):
            return ()
        for made in chosen:
            reads = [_bound(read, call, each) for read in made.reads]
            if any(read is None for read in reads):
                return ()
            writes = tuple(_written(write, call, each, number * count) for write in made.writes)
            reason = f"{made.reason}; rows from {number * count} on, as one binding cannot hold all"
            kept = tuple(read for read in reads if read is not None)
            found.append(replace(made, reads=kept, writes=writes, reason=reason))
    return tuple(found)


def _bound(read: Read, call: Call, part: Part) -> Read | None:
    """Return a read of a part's rows; None if the operand is packed as a whole."""
    first = part.firsts[read.operand] if isinstance(read.operand, int) else None
    if first is None or not isinstance(read.operand, int):
        return read
    if read.pack is not None:
        return None
    begin = first * _row_bytes(call.input(read.operand))
    return replace(read, window=(begin, part.call.input(read.operand).nbytes))


def _written(write: Write, call: Call, part: Part, first: int) -> Write:
    if not isinstance(write.output, int):
        return write
    return replace(write, window=(first * _row_bytes(call.y), part.call.y.nbytes))
