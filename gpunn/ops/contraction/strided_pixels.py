"""Convolutions with windows of one pixel and a stride: products of matrices whose rows are these pixels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpunn.kernel import Candidate, Kernel
from gpunn.ops.call import Call
from gpunn.ops.contraction.shared_operands import Product, matrix_product
from gpunn.ops.contraction.word_products import Form
from gpunn.ops.kernels.window import window_params

_ROWS, _STRIDED_ROWS = "row_steps", "strided_row_steps"  # files of shaders/lib/


def sees_pixels(call: Call, form: Form) -> bool:
    """Tell whether a convolution with one group has such windows, on devices that are no software.

    Software computes most of these in rows that a subgroup shares, which windows have, too.
    """
    window = form.window
    unpadded = window.size == (1, 1) and window.before == window.after == (0, 0)
    return unpadded and not window.pointwise and form.depth % 4 == 0 and not call.device.software


def pixel_product(form: Form) -> Product:
    """Describe the product for tiles that a workgroup shares."""
    product = matrix_product(form.depth)
    params = {**product.params, **window_params(form.window, *form.spatial)}
    return replace(product, params=params, libraries=_strided(product.libraries), row=0)


def of_pixels(form: Form, ways: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the ways in register tiles for products of matrices that load four elements of a row, changed."""
    for way in ways:
        *packs, kernel = way.kernels
        if _ROWS in kernel.libraries:
            yield replace(way, kernels=[*packs, _of_pixels(form, kernel)])


def _of_pixels(form: Form, kernel: Kernel) -> Kernel:
    x, *others = kernel.reads
    return replace(
        kernel,
        reads=(replace(x, by_rows=None), *others),
        params={**kernel.params, **window_params(form.window, *form.spatial)},
        libraries=_strided(kernel.libraries),
    )


def _strided(libraries: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_STRIDED_ROWS if name == _ROWS else name for name in libraries)
