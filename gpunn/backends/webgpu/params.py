"""A kernel's parameters as `struct P`: in a uniform buffer, or written into its shader (Kernel.inlined)."""

from __future__ import annotations

import math
import struct

import numpy as np

from gpunn.errors import DeviceError
from gpunn.kernel import Kernel, Param, ceil_div

_LEAST = -(2**31)  # has no literal


def param_type(value: Param) -> str:
    """Return the WGSL type of a parameter."""
    if isinstance(value, tuple):
        return "vec4<i32>" if len(value) == 4 else "vec2<u32>"
    if isinstance(value, complex):
        return "vec2<f32>"
    return "f32" if isinstance(value, float) else "u32"


def ordered_params(kernel: Kernel) -> list[tuple[str, Param]]:
    """Sort parameters into the order of `struct P`: long vectors first, so that nothing needs padding."""
    return sorted(kernel.params.items(), key=lambda item: -_components(item[1]))


def _components(value: Param) -> int:
    if isinstance(value, tuple):
        return len(value)
    return 2 if isinstance(value, complex) else 1


def param_block(kernel: Kernel) -> bytes:
    """Pack a kernel's `struct P`: little-endian 32-bit words, filled up to a multiple of 16 bytes.

    Raises DeviceError for an integer that does not fit 32 bits.
    """
    block = b""
    for name, value in ordered_params(kernel):
        if isinstance(value, tuple):
            block += struct.pack("<4i" if len(value) == 4 else "<2I", *value)
        elif isinstance(value, complex):
            block += struct.pack("<2f", value.real, value.imag)
        elif isinstance(value, float):
            with np.errstate(over="ignore"):  # an infinity, as in numpy's float32
                block += np.array(value, "<f4").tobytes()
        elif 0 <= value < 2**32:
            block += struct.pack("<I", value)
        else:
            raise DeviceError(f"parameter {name} of {kernel.body} does not fit 32 bits: {value}")
    return block + bytes(ceil_div(len(block), 16) * 16 - len(block))


def literals(kernel: Kernel, bytes_computed: bool) -> tuple[str, ...]:
    """Write the fields of `struct P` as WGSL literals; () for parameters that must stay in a buffer.

    These are infinities and NaN, which have no literal, and zeros: compilers make 0.0 of x * 0.0, which is
    NaN for an infinite x. bytes_computed: the kernel has operands of 8 or 16 bits. Their results are exact,
    so no compiler may combine reals.
    """
    values = [value for _, value in ordered_params(kernel)]
    reals = [part for value in values for part in _reals(value)]
    if (reals and bytes_computed) or not all(part and math.isfinite(part) for part in reals):
        return ()
    return tuple(map(_literal, values))


def _reals(value: Param) -> tuple[float, ...]:
    """Return what float32 has in place of the real numbers of a parameter."""
    if isinstance(value, complex):
        return (*_reals(value.real), *_reals(value.imag))
    if not isinstance(value, float):
        return ()
    with np.errstate(over="ignore", under="ignore"):
        return (float(np.float32(value)),)


def _literal(value: Param) -> str:
    if isinstance(value, tuple):
        texts = [str(part) if part != _LEAST else f"i32({part})" for part in value]
    else:
        texts = [f"{part!r}f" for part in _reals(value)] or [f"{value}u"]
    return f"{param_type(value)}({', '.join(texts)})"
