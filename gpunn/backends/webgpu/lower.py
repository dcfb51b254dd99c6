"""An operation's kernels on a device, or the reason why it has none there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpunn.backends.webgpu.accessors import PACKED_TYPES, PAIRED_TYPES, WORD_TYPES
from gpunn.backends.webgpu.memory import padded
from gpunn.graph.operation import Lifetime, Operation
from gpunn.kernel import MAX_GROUPS, MAX_STEPS, Kernel, Unsupported
from gpunn.types import TensorType

_COMPUTED = (Lifetime.TEMPORARY, Lifetime.VARIABLE)


def lower(operation: Operation, limits: Mapping[str, int], parallel: int = 1) -> tuple[Kernel, ...] | str:
    """The kernels of an operation, or why a device with these limits cannot run it.

    `parallel`: how many invocations occupy the device; kernels divide their work for it.
    Raises ModelError where a constant holds what the op must refuse.
    """
    definition = operation.definition
    kernel = definition.kernel
    if operation.integer:
        kernel = operation.facet.kernel if operation.facet else None
    types = [o.type for o in (*operation.inputs, *operation.outputs) if o is not None]
    objection = next(filter(None, (_objection(t, limits) for t in types)), "")
    if kernel is None:
        on = " for quantised tensors" if operation.integer else ""
        return definition.host_reason or objection or f"{operation.op} has no GPU kernel{on}"
    for guard, operand in operation.guarded:
        if operand.value is not None:
            guard.check(operation.call(), operand.value)
    if objection:
        return objection
    call = operation.call()
    try:
        result = kernel(replace(call, parallel=parallel))
    except Unsupported as unsupported:
        return str(unsupported)
    computed = [g for g, o in operation.guarded if o.lifetime in _COMPUTED and o.type.size]
    kernels = (*(g.kernel(call) for g in computed), *((result,) if isinstance(result, Kernel) else result))
    return next(filter(None, (_over_limit(k, limits) for k in kernels)), "") or kernels


def _objection(type: TensorType, limits: Mapping[str, int]) -> str:
    if type.dtype not in (*WORD_TYPES, *PACKED_TYPES, *PAIRED_TYPES):
        return f"{type.dtype.value} tensors have no form on the GPU"
    most = limits["max-storage-buffer-binding-size"]
    if padded(type.nbytes) > most:
        return f"a tensor of {type.nbytes} bytes is over the device's binding limit of {most}"
    return ""


def _over_limit(kernel: Kernel, limits: Mapping[str, int]) -> str:
    objection = next(filter(None, (_objection(s.type, limits) for s in kernel.scratch)), "")
    if objection:
        return objection
    bindings = sum(r.present for r in kernel.reads) + len(kernel.writes)
    most = limits["max-storage-buffers-per-shader-stage"]
    if bindings > most:
        return f"{bindings} buffers are over the device's limit of {most}"
    if max(kernel.groups) > min(MAX_GROUPS, limits["max-compute-workgroups-per-dimension"]):
        return f"a grid of {kernel.groups} workgroups is over the device's limit"
    if kernel.steps > MAX_STEPS:
        return f"{kernel.steps} steps of one invocation are over {MAX_STEPS}, which every driver does"
    return ""
