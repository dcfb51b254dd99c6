"""Bindings of a device: segments of tensors over the limit of a binding, and words of 64 bits.

Segments are several bindings of one buffer, side by side. The accessors of an operand choose the binding
that has an element, or take its words apart (gpunn.backends.webgpu.accessors), so any kernel can work on it
without knowing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpunn.backends.webgpu.memory import padded
from gpunn.kernel import Candidate, Kernel, Kernels, Read, Scratch, Segments, Unsupported, Write, ceil_div
from gpunn.ops.call import Call

_UNIT = 256  # bytes of which a segment has a multiple: no element, and no four of them, lie in two segments


def segmented(call: Call, kernels: Kernels) -> Kernels:
    """Return kernels that bind in segments what is over the limit of a binding.

    Candidates that pack a constant over the limit are left out. Raises Unsupported if there are no others.
    """
    if isinstance(kernels, Kernel):
        return in_segments(call, [kernels])
    return _candidates(call, kernels) if isinstance(kernels, Iterator) else in_segments(call, kernels)


def _candidates(call: Call, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    left_out = ""
    count = 0
    for candidate in candidates:
        try:
            kernels = in_segments(call, candidate.kernels)
        except Unsupported as unsupported:
            left_out = str(unsupported)
            continue
        count += 1
        yield replace(candidate, kernels=kernels)
    if not count and left_out:
        raise Unsupported(left_out)


def in_segments(call: Call, kernels: Sequence[Kernel]) -> Sequence[Kernel]:
    """Return kernels that bind in segments what is over the limit. Raises Unsupported; see segmented()."""
    return [_kernel(call, kernel) for kernel in kernels]


def _kernel(call: Call, kernel: Kernel) -> Kernel:
    if call.device.wide_words:
        kernel = replace(kernel, wide_words=True)
    if call.device.shifts_singly:
        kernel = replace(kernel, without_shifts=True)
    if call.device.texels:
        kernel = replace(kernel, texels=True)
    reads = tuple(_read(call, read) for read in kernel.reads)
    writes = tuple(_write(call, write) for write in kernel.writes)
    same = all(a is b for a, b in zip((*reads, *writes), (*kernel.reads, *kernel.writes), strict=True))
    return kernel if same else replace(kernel, reads=reads, writes=writes)


def _read(call: Call, read: Read) -> Read:
    if read.operand is None:
        return read
    type = call.input(read.operand) if isinstance(read.operand, int) else read.operand.type
    segments = _segments(call, read.nbytes or type.nbytes, read.window)
    if segments is not None and read.pack is not None and not read.nbytes:
        what = f"a constant of {type.nbytes} bytes"
        raise Unsupported(f"{what} cannot be packed within the device's binding limit")
    return read if segments is None else replace(read, segments=segments)


def _write(call: Call, write: Write) -> Write:
    type = write.output.type if isinstance(write.output, Scratch) else call.outputs[write.output]
    segments = _segments(call, type.nbytes, write.window)
    return write if segments is None else replace(write, segments=segments)


def _segments(call: Call, nbytes: int, window: tuple[int, int] | None) -> Segments | None:
    """Return the bindings of a tensor, or of a window of it; None if it needs one."""
    most = call.device.limit("max-storage-buffer-binding-size")
    size = padded(nbytes if window is None else window[1])
    if size <= most:
        return None
    alignment = max(_UNIT, call.device.limit("min-storage-buffer-offset-alignment"))  # both are powers of two
    each = most // alignment * alignment
    return Segments(ceil_div(size, each), each)
