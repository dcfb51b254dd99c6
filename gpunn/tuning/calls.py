"""Calls with several candidates: which of a graph's operations have some, and which of these are equal."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from gpunn.backends.webgpu.lower import candidates
from gpunn.backends.webgpu.params import param_block
from gpunn.backends.webgpu.shader import ShaderKey, generate, key_of, source, target
from gpunn.device import DeviceProperties
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Candidate, Kernel, Read, Scratch, Write
from gpunn.planning.partition import Placement
from gpunn.types import Tensor

# Additions, multiplications and elements of a call. With fewer a dispatch takes about as long to start as to
# compute, on every adapter that was seen, so candidates do not differ by what a run would show.
LEAST_WORK = 1 << 17


@dataclass(frozen=True, slots=True)
class TunableCall:
    """Equal operations of a graph with the candidates of the first one, two or more.

    key: the same for operations whose candidates have the same kernels, in every process.
    """

    key: str
    operations: tuple[Operation, ...]
    candidates: tuple[Candidate, ...]


def tunable_calls(
    operations: Iterable[Operation], device: DeviceProperties
) -> tuple[tuple[TunableCall, ...], int]:
    """Return the calls that have several candidates on a device, and how many others are too small."""
    found: dict[str, tuple[list[Operation], tuple[Candidate, ...]]] = {}
    small = 0
    for operation in operations:
        offered = candidates(operation, device)
        if offered and work_of(operation) < LEAST_WORK:
            small += 1
        elif offered:
            found.setdefault(_key(operation, offered, device), ([], offered))[0].append(operation)
    calls = (TunableCall(key, tuple(equal), offered) for key, (equal, offered) in found.items())
    return tuple(calls), small


def work_of(operation: Operation) -> int:
    """Count additions, multiplications, and the elements of operands and results."""
    operands = (*operation.inputs, *operation.outputs)
    elements = sum(o.type.size for o in operands if o is not None)
    return operation.definition.count_flops(operation.call()) + elements


def _key(operation: Operation, offered: Iterable[Candidate], device: DeviceProperties) -> str:
    """Return a digest of all that the time of candidates depends on: shaders, grids, numbers, tensors."""
    apart = not device.software  # see gpunn.backends.webgpu.apart
    described = tuple(tuple(_kernels(operation, candidate, apart)) for candidate in offered)
    return hashlib.blake2b(repr(described).encode(), digest_size=16).hexdigest()


def plan_key(placements: Iterable[Placement]) -> str:
    """Return a digest of the kernels of placements, in their order, for hardware."""
    described = tuple(_kernel(k, p.operation, True) for p in placements for k in p.kernels)
    return hashlib.blake2b(repr(described).encode(), digest_size=16).hexdigest()


def _kernels(operation: Operation, candidate: Candidate, apart: bool) -> Iterator[Hashable]:
    scratch: dict[Scratch, int] = {}

    def place(tensor: Operand | Scratch | None, number: int | Tensor | None) -> Hashable:
        where = scratch.setdefault(number, len(scratch)) if isinstance(number, Scratch) else number
        return where, isinstance(number, Scratch), str(tensor.type) if tensor is not None else ""

    for kernel in candidate.kernels:
        yield _kernel(kernel, operation, apart)
        yield tuple((place(source(r, operation), r.operand), *_read(r)) for r in kernel.reads)
        yield tuple((place(target(w, operation), w.output), *_write(w)) for w in kernel.writes)


def _kernel(kernel: Kernel, operation: Operation, apart: bool) -> Hashable:
    key = key_of(kernel, operation, apart)
    text = _source(key._replace(inlined=()))  # parameters are digested below
    return text, key.bound_params, kernel.groups, param_block(kernel)


@functools.lru_cache(1024)
def _source(key: ShaderKey) -> bytes:
    """Return a digest of a shader's source."""
    return hashlib.blake2b(generate(key).encode(), digest_size=16).digest()


def _read(read: Read) -> tuple[Hashable, ...]:
    pack, value = read.pack, read.value
    packed = None if pack is None else (pack.function.__module__, pack.function.__qualname__, pack.args)
    table = None if value is None else (str(value.dtype), value.shape, value.tobytes())
    return packed, read.also, table, read.window, read.segments


def _write(write: Write) -> tuple[Hashable, ...]:
    return write.window, write.segments
