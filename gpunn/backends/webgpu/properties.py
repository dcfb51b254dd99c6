"""Properties of a device for kernels, by the driver and the processor of its adapter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpunn.backends.adapter import SOFTWARE, DeviceInfo
from gpunn.backends.processors import processor_features
from gpunn.device import DeviceProperties

# Invocations that occupy an adapter of a kind, by the order of magnitude: WebGPU tells no number of cores. A
# software adapter computes one workgroup a core, which none needs to share.
_PARALLEL = {SOFTWARE: 1, "DiscreteGPU": 1 << 15}
_PARALLEL_OTHERWISE = 1 << 12

_LAVAPIPE = "llvmpipe"  # what Mesa calls its software Vulkan
_GATHERING = 26  # the version of Mesa from which on it gathers
_WITHOUT_STALLS = 25  # that from which on it puts words into vectors in registers
_SWIFTSHADER = "swiftshader"  # that of Google, which browsers have
# After 65,535 iterations lavapipe ends all loops of an invocation without a word (Mesa, lp_bld_limits.h,
# LP_MAX_TGSI_LOOP_ITERATIONS). Some are left for what libraries do.
LAVAPIPE_LOOP_ITERATIONS = 65_000


def properties(
    info: DeviceInfo,
    features: Iterable[str],
    limits: Mapping[str, int],
    subgroup_sizes: tuple[int, int] | None,
) -> DeviceProperties:
    """Describe an adapter's device, opened with these features and limits, for kernel functions."""
    processor = processor_features()
    return DeviceProperties(
        features=frozenset(features),
        limits=limits,
        subgroup_sizes=subgroup_sizes or _software_subgroup(info.name),
        parallel_invocations=_PARALLEL.get(info.kind, _PARALLEL_OTHERWISE),
        software=info.kind == SOFTWARE,
        gathers=_gathers(info),
        texels=loads_texels(info, processor),
        narrow_weights=has_narrow_weights(info, processor),
        max_loop_iterations=LAVAPIPE_LOOP_ITERATIONS if _LAVAPIPE in info.name.lower() else None,
    )


def _mesa(info: DeviceInfo) -> int | None:
    """Return the version of Mesa of which an adapter is the lavapipe."""
    found = re.match(r"Mesa (\d+)\.", info.driver)
    return int(found[1]) if found and _LAVAPIPE in info.name.lower() else None


def _gathers(info: DeviceInfo) -> bool:
    """Tell whether lavapipe loads what its lanes want by one instruction.

    Mesa 26.2 does, 22.3 and 25.0 have a loop over the lanes. The versions between were not tried.
    """
    mesa = _mesa(info)
    return mesa is not None and mesa >= _GATHERING


def loads_texels(info: DeviceInfo, processor: frozenset[str]) -> bool:
    """Tell whether software loads fours from textures sooner than from buffers.

    SwiftShader does. Lavapipe of Mesa 22.3 puts the words that it loads from a buffer into a vector one by
    one: without AVX-512 through memory, and it waits for each. That of 25.0 does so in registers. The
    versions between, and other than x86 processors, were not tried.
    """
    if _SWIFTSHADER in info.name.lower():
        return True
    mesa = _mesa(info)
    return mesa is not None and mesa < _WITHOUT_STALLS and "avx" in processor and "avx512vl" not in processor


def has_narrow_weights(info: DeviceInfo, processor: frozenset[str]) -> bool:
    """Tell whether software multiplies sooner by weights in words of 32 bits than in words of 64.

    Lavapipe does from Mesa 25 on, on AMD's processors with AVX-512, which have SSE4a as no others do. There
    LLVM 15 keeps eight words of 64 bits in one vector of 512 bits, on a stack that is aligned to less. Mesa
    22.3 aligns its stack.
    """
    mesa = _mesa(info)
    return mesa is not None and mesa >= _WITHOUT_STALLS and {"sse4a", "avx512vl"} <= processor


def _software_subgroup(name: str) -> tuple[int, int] | None:
    """Return the sizes of subgroups that a driver does not tell, by the name of a software adapter.

    A subgroup is a vector of 32-bit lanes; "llvmpipe (LLVM 15.0.6, 256 bits)" has eight. SwiftShader's have
    four on all processors.
    """
    if _SWIFTSHADER in name.lower():
        return 4, 4
    found = re.search(rf"{_LAVAPIPE}.*\b(\d+) bits", name.lower())
    lanes = int(found[1]) // 32 if found else 0
    return (lanes, lanes) if lanes else None
