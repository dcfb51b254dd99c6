"""An operation's kernels on a device, or the reason why it has none there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gpunn.backends.webgpu.bindings import PACKED_TYPES, PAIRED_TYPES, WORD_TYPES
from gpunn.backends.webgpu.loop import lower_loop
from gpunn.backends.webgpu.memory import padded
from gpunn.backends.webgpu.parts import in_parts
from gpunn.backends.webgpu.segments import in_segments, segmented
from gpunn.device import SUBGROUPS, DeviceProperties
from gpunn.errors import ModelError
from gpunn.graph.operation import Lifetime, Operation
from gpunn.kernel import Candidate, Kernel, Kernels, Scratch, Unsupported
from gpunn.ops.call import Call
from gpunn.ops.control import some_rounds, while_loop
from gpunn.ops.op import KernelFunction
from gpunn.ops.parts import Divide
from gpunn.types import TensorType

_COMPUTED = (Lifetime.TEMPORARY, Lifetime.VARIABLE)

# Chooses among several candidates that a device supports, and returns the kernels of one.
Decide = Callable[[Sequence[Candidate]], Sequence[Kernel]]


def lower(
    operation: Operation, device: DeviceProperties, decide: Decide | None = None
) -> tuple[Kernel, ...] | str:
    """Return the kernels of an operation, or why a device with these properties cannot run it.

    decide: chooses among several candidates; None: the first one is taken, as in loops and in operations
    that are computed in parts. Raises ModelError if a constant contains values that the op must refuse.
    """
    definition = operation.definition
    if definition in (while_loop, some_rounds):
        return _loop(operation, device)
    kernel = definition.kernel
    if operation.integer:
        kernel = operation.facet.kernel if operation.facet else None
    types = [o.type for o in (*operation.inputs, *operation.outputs) if o is not None]
    homeless = next(filter(None, (_form_objection(t) or _buffer_objection(t, device) for t in types)), "")
    large = next(filter(None, (_size_objection(t, device) for t in types)), "")
    if kernel is None:
        on = " for quantised tensors" if operation.integer else ""
        return definition.host_reason or homeless or large or f"{operation.op} has no GPU kernel{on}"
    for guard, operand in operation.guarded:
        if operand.value is not None:
            guard.check(operation.call(), operand.value)
    call = replace(operation.call(), device=device)
    if homeless:
        return homeless
    computed = [g for g, o in operation.guarded if o.lifetime in _COMPUTED and o.type.size]
    try:
        guards = in_segments(call, [kernel for guard in computed for kernel in guard.kernels(call)])
        parts = _in_parts(call, definition.division, kernel) if large and definition.division else ()
        chosen = _objection(guards, device) or parts or _choose(call, kernel(call), decide)
    except Unsupported as unsupported:
        chosen = str(unsupported)
    if isinstance(chosen, str):
        return f"{large}; {chosen}" if large else chosen
    return (*guards, *chosen)


def _loop(operation: Operation, device: DeviceProperties) -> tuple[Kernel, ...] | str:
    """Return the kernels of a loop, or why the host runs it."""
    types = [o.type for o in (*operation.inputs, *operation.outputs) if o is not None]
    if any(_form_objection(t) or _size_objection(t, device) for t in types):
        return operation.definition.host_reason
    # A workgroup of the loop runs the workgroups of its kernels, and these are none of its subgroups.
    # It has constants in its table.
    alone = replace(device, features=device.features - {SUBGROUPS}, texels=False)
    try:
        kernels = lower_loop(operation, device, lambda inner: lower(inner, alone))
    except Unsupported as unsupported:
        return str(unsupported)
    return _objection(kernels, device) or kernels


def _in_parts(call: Call, divide: Divide, kernel: KernelFunction) -> tuple[Kernel, ...]:
    """Return kernels for parts of an operation; nothing if it cannot be divided."""
    try:
        return in_parts(call, divide, kernel, _choose)
    except (Unsupported, ModelError):  # parts of a call break rules that the whole one keeps: huge borders
        return ()


def candidates(operation: Operation, device: DeviceProperties) -> tuple[Candidate, ...]:
    """Return the candidates among which lower() lets others decide: two or more, or none at all."""
    found: list[Candidate] = []

    def note(supported: Sequence[Candidate]) -> Sequence[Kernel]:
        found.extend(supported)
        return supported[0].kernels

    lower(operation, device, note)
    return tuple(found)


def _choose(call: Call, kernels: Kernels, decide: Decide | None = None) -> Sequence[Kernel] | str:
    """Choose what the call's device runs, with tensors over its limit of a binding in segments."""
    return choose(segmented(call, kernels), call.device, decide)


def choose(
    kernels: Kernels, device: DeviceProperties, decide: Decide | None = None
) -> Sequence[Kernel] | str:
    """Choose what a device runs, or say why it can run none of the candidates.

    Of several that it supports, take the first, or what `decide` says. No other function chooses.
    """
    if isinstance(kernels, Kernel):
        kernels = (kernels,)
    if not isinstance(kernels, Iterator):
        return _objection(kernels, device) or kernels
    refused: list[tuple[str, str]] = []
    supported: list[Candidate] = []
    try:
        for candidate in kernels:
            objection = _missing(candidate, device) or _objection(candidate.kernels, device)
            if objection:
                refused.append((f"{candidate.reason}: ", objection))
            elif decide is None:
                return candidate.kernels
            elif not (candidate.fallback and supported):
                supported.append(candidate)
    except Unsupported as unsupported:
        refused.append(("", str(unsupported)))
    supported = [way for way in supported if not way.quick_to_compile] or supported
    if decide is not None and supported:
        return decide(supported) if len(supported) > 1 else supported[0].kernels
    if len(refused) == 1:
        return refused[0][1]
    return "; ".join(way + objection for way, objection in refused) or "no candidate is offered"


def _missing(candidate: Candidate, device: DeviceProperties) -> str:
    """Name the features that a candidate needs and a device does not have."""
    missing = sorted(candidate.needs - device.features)
    return f"the device has no {', '.join(missing)}" if missing else ""


def _form_objection(type: TensorType) -> str:
    if type.dtype in (*WORD_TYPES, *PACKED_TYPES, *PAIRED_TYPES):
        return ""
    return f"{type.dtype.value} tensors have no form on the GPU"


def _size_objection(type: TensorType, device: DeviceProperties) -> str:
    most = device.limit("max-storage-buffer-binding-size")
    if padded(type.nbytes) > most:
        return f"a tensor of {type.nbytes} bytes is over the device's binding limit of {most}"
    return ""


def _buffer_objection(type: TensorType, device: DeviceProperties) -> str:
    most = device.limit("max-buffer-size")
    if padded(type.nbytes) > most:
        return f"a tensor of {type.nbytes} bytes is over the device's buffer limit of {most}"
    return ""


def _objection(kernels: Sequence[Kernel], device: DeviceProperties) -> str:
    """Return why a device cannot run kernels; empty if it can."""
    return next(filter(None, (_over_limit(kernel, device) for kernel in kernels)), "")


def _over_limit(kernel: Kernel, device: DeviceProperties) -> str:
    whole = (w.output.type for w in kernel.writes if isinstance(w.output, Scratch) and w.segments is None)
    objection = next(filter(None, (_size_objection(t, device) for t in whole)), "")
    if objection:
        return objection
    most = device.most_bindings
    if kernel.bindings > most:
        return f"{kernel.bindings} buffers are over the device's limit of {most}"
    if max(kernel.groups) > device.limit("max-compute-workgroups-per-dimension"):
        return f"a grid of {kernel.groups} workgroups is over the device's limit"
    return _workgroup_over_limit(kernel, device) or _loops_over_limit(kernel, device)


def _workgroup_over_limit(kernel: Kernel, device: DeviceProperties) -> str:
    sizes = tuple(device.limit(f"max-compute-workgroup-size-{axis}") for axis in "xyz")
    most = device.limit("max-compute-invocations-per-workgroup")
    if math.prod(kernel.workgroup) > most or any(w > n for w, n in zip(kernel.workgroup, sizes, strict=True)):
        return f"a workgroup of {kernel.workgroup} is over the device's limits of {most} and {sizes}"
    most = device.limit("max-compute-workgroup-storage-size")
    if kernel.workgroup_bytes > most:
        return f"{kernel.workgroup_bytes} bytes of workgroup memory are over the device's limit of {most}"
    return ""


def _loops_over_limit(kernel: Kernel, device: DeviceProperties) -> str:
    count, most = kernel.loop_iterations, device.max_loop_iterations
    if most is not None and count > most:
        return f"{count} loop iterations of one invocation are over the device's limit of {most}"
    return ""
