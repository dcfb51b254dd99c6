"""Quantised products of stacks of matrices of 8 bits in tiles that a workgroup shares.

Neither operand is packed (shaders/lib/workgroup_integers.wgsl). word_products.py has those of constants.
"""

from __future__ import annotations

from dataclasses import replace

from gpunn.kernel import Kernel, Read, ceil_div
from gpunn.ops.call import Call
from gpunn.ops.contraction.product_rescaling import SHIFTED_BITS, Rescaling
from gpunn.ops.contraction.shared_operands import Product

_FOUR = 4  # elements of the depth whose products are added in f32


def workgroup_integers(call: Call, real: Product, how: Rescaling) -> Product:
    """Describe a quantised product as one of reals that are not packed."""
    channels = ceil_div(call.y.shape[-1], _FOUR)

    def of_bytes(kernel: Kernel) -> Kernel:
        """Return the kernel of integers for that of reals."""
        # With those behind the depth, which are zeros.
        fours = kernel.loop_iterations * kernel.constants["SLICES"] * _FOUR
        behind = _FOUR * fours - real.depth
        excess = fours * SHIFTED_BITS + behind * how.zero_x * how.zero_w
        integers = replace(
            kernel,
            reads=(*kernel.reads, Read("scales", None, _FOUR, value=how.table(_FOUR))),
            params={
                **kernel.params,
                **how.params(how.zero_w, _FOUR),
                "SCALES": channels,
                "excess": excess & 0xFFFFFFFF,
            },
            functions={},
            libraries=tuple("workgroup_integers" if n == "workgroup_reals" else n for n in kernel.libraries),
            lanes=_FOUR,
            reason=f"integers: {kernel.reason}; sums of 4 products in f32",
        )
        return how.finish.of(integers)

    return replace(real, integers=of_bytes)
