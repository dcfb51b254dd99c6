"""The names of C types that wgpu-py asks cffi for, parsed together.

An FFI that has parsed webgpu.h parses the list of all its types again for each new name: about 10 ms, some 45
times until a model has given its first answer. Parsed as the members of one struct, they cost that once. This
is for programs that have imported wgpu-py's library before gpunn's backend; see header.py for all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# As wgpu-py and native.py spell them, spaces included. A name that is not here works, but takes longer.
POINTERS = (
    "WGPUAdapterInfo",
    "WGPUBindGroupDescriptor",
    "WGPUBindGroupEntry",
    "WGPUBindGroupLayoutDescriptor",
    "WGPUBindGroupLayoutEntry",
    "WGPUBufferBindingLayout",
    "WGPUBufferDescriptor",
    "WGPUBufferMapCallbackInfo",
    "WGPUChainedStruct",
    "WGPUCommandBufferDescriptor",
    "WGPUCommandEncoderDescriptor",
    "WGPUComputePassDescriptor",
    "WGPUComputePipelineDescriptor",
    "WGPUComputeState",
    "WGPUDeviceDescriptor",
    "WGPUDeviceExtras",
    "WGPUDeviceLostCallbackInfo",
    "WGPUExtent3D",
    "WGPUInstanceDescriptor",
    "WGPUInstanceExtras",
    "WGPULimits",
    "WGPUNativeLimits",
    "WGPUOrigin3D",
    "WGPUPassTimestampWrites",
    "WGPUPipelineLayoutDescriptor",
    "WGPUQuerySetDescriptor",
    "WGPUQueueDescriptor",
    "WGPURequestDeviceCallbackInfo",
    "WGPUShaderModuleDescriptor",
    "WGPUShaderSourceWGSL",
    "WGPUSubmissionIndex",
    "WGPUTexelCopyBufferLayout",
    "WGPUTexelCopyTextureInfo",
    "WGPUTextureBindingLayout",
    "WGPUTextureDescriptor",
    "WGPUTextureViewDescriptor",
    "WGPUUncapturedErrorCallbackInfo",
    "uint8_t",
)
ARRAYS = (
    "WGPUAdapter",
    "WGPUBindGroupEntry",
    "WGPUBindGroupLayout",
    "WGPUBindGroupLayoutEntry",
    "WGPUCommandBuffer",
    "WGPUFeatureName",
)
FUNCTIONS = (
    "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)",
    "void(WGPUDevice const *, WGPUDeviceLostReason, WGPUStringView, void *, void *)",
    "void(WGPUDevice const *, WGPUErrorType, WGPUStringView, void *, void *)",
    "void(WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *)",
)
OTHERS = ("WGPUChainedStruct * ", "char []", "intptr_t", "uint32_t []", "uint8_t []", "uintptr_t")
NAMES = (*(f"{name} *" for name in POINTERS), *(f"{name}[]" for name in ARRAYS), *FUNCTIONS, *OTHERS)


def parse_together(ffi: Any, names: Sequence[str] = NAMES) -> None:
    """Let an FFI know types by these names, as if each had been asked for.

    cffi has no public way to state them. If it does not keep them where it did, or if webgpu.h has one of
    them no more, nothing happens: each name is parsed when it is asked for.
    """
    known = getattr(ffi, "_parsed_types", None)
    if not isinstance(known, dict):
        return
    missing = [name for name in names if name not in known]
    members = " ".join(f"{_pointer(name, f'm{k}')};" for k, name in enumerate(missing))
    try:
        found = [member.type for _, member in ffi.typeof(f"struct {{ {members} }}").fields]
    except Exception:
        return
    for name, type in zip(missing, found, strict=True):
        known[name] = (type, True) if _is_function(name) else (type.item, False)


def _pointer(name: str, member: str) -> str:
    """Declare a member that points to a type, or to a function of a type."""
    before, found, rest = name.partition("(" if _is_function(name) else "[")
    return f"{before} (*{member}){found}{rest}"


def _is_function(name: str) -> bool:
    return "(" in name
