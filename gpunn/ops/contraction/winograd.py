"""Winograd's convolution with 3 x 3 windows and stride 1: fewer multiplications, and larger rounding errors.

The result is cut into tiles of m x m pixels. Input, filter and products of a tile have t x t cells,
t = m + 2: y = A^T [(G g G^T) * (B^T d B)] A (Lavin and Gray, Fast Algorithms for Convolutional Neural
Networks, 2015, section 4.1). Over all tiles and channels, each cell is a product of two matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from gpunn.device import SUBGROUPS
from gpunn.kernel import (
    Candidate,
    Kernel,
    Pack,
    Param,
    Read,
    Scratch,
    Write,
    ceil_div,
    fits_i32,
    flat_threads,
    vec_width,
)
from gpunn.ops.accuracy import Evaluation
from gpunn.ops.call import Call
from gpunn.ops.contraction.broadcast_tile import shared_stack, subgroup
from gpunn.ops.contraction.filter_packing import BLOCK
from gpunn.ops.contraction.winograd_tiling import REALS, SIZE, Tiling, comes_first, full, in_tiles
from gpunn.ops.contraction.winograd_transform import rounds, transform_of
from gpunn.ops.contraction.workgroup_product import workgroup_stack
from gpunn.ops.elementwise.clipping import with_activation
from gpunn.ops.kernels.tiling import COLUMNS, WORKGROUP
from gpunn.ops.kernels.window import Window, check_window, window_params
from gpunn.rows import Pitch
from gpunn.types import Array, DType, TensorType


def _transforms(points: tuple[float, ...]) -> tuple[Array, Array, Array]:
    """Return A^T [m, t], G [t, 3] and B^T [t, t] for these points and infinity (Toom and Cook's algorithm).

    Row k of B^T has the coefficients of the product of (x - q) over all other points q, and row k of G is
    divided by its value at point k.
    """
    count = len(points) + 1
    results = count - 2
    a, g, b = np.zeros((results, count)), np.zeros((count, 3)), np.zeros((count, count))
    for k, point in enumerate(points):
        others = np.poly([q for q in points if q != point])
        a[:, k] = [point**i for i in range(results)]
        g[k] = np.array([1, point, point**2]) / np.polyval(others, point)
        b[k, : count - 1] = others[::-1]
    a[-1, -1] = g[-1, -1] = 1
    b[-1] = np.poly(points)[::-1]
    return a, g, b


# By m. The points of the second lie so that rounding errors stay small: with 0, 1, -1, 2, -2 they could be
# four times as large.
TRANSFORMS = {2: _transforms((0, 1, -1)), 4: _transforms((0, 0.5**0.5, -(0.5**0.5), 2**0.5, -(2**0.5)))}


def pack_cells(filter: Array, edge: int) -> Array:
    """Pack [O, 3, 3, I] as [cells, blocks, depth, BLOCK]: for each cell of G g G^T what pack_blocks() makes
    of it.
    """
    return pack_transformed(filter, TRANSFORMS[edge][1], np.dtype(np.float32))


def pack_transformed(filter: Array, g: Array, dtype: np.dtype[np.generic]) -> Array:
    """Pack as pack_cells() does, for any G."""
    channels, depth = filter.shape[0], filter.shape[3]
    packed = np.empty((len(g) ** 2, ceil_div(channels, BLOCK), depth, BLOCK), dtype)
    for k in range(packed.shape[1]):
        packed[:, k] = _transformed(filter[k * BLOCK : (k + 1) * BLOCK], g, BLOCK)
    return packed


def pack_matrices(filter: Array, edge: int) -> Array:
    """Pack [O, 3, 3, I] as [cells, depth, O]: a matrix for each cell of G g G^T. O is padded to a multiple of
    COLUMNS.
    """
    g, channels = TRANSFORMS[edge][1], full(len(filter), COLUMNS)
    packed = np.empty((len(g) ** 2, filter.shape[3], channels), np.float32)
    for first in range(0, channels, BLOCK):  # not all at once, as they have 64 bits
        some = slice(first, min(first + BLOCK, channels))
        packed[..., some] = _transformed(filter[some], g, some.stop - first)
    return packed


def _transformed(filter: Array, g: Array, channels: int) -> Array:
    """Return the cells of G g G^T as [cells, depth, channels]; there are zeros for channels that are not
    there.
    """
    depth, cells = filter.shape[3], math.prod(SIZE)
    columns = np.zeros((cells, depth, channels))
    columns[..., : len(filter)] = filter.reshape(-1, cells, depth).transpose(1, 2, 0)
    return np.tensordot(np.kron(g, g), columns, 1)


def fits(call: Call, window: Window) -> bool:
    """Tell whether Winograd's algorithm applies to a convolution of reals with one group.

    What lies between its kernels is float32, also where tensors are float16.
    """
    return call.x.dtype in REALS and in_tiles(call, window)


class Arithmetic(NamedTuple):
    """The arithmetic of a convolution.

    dtype: of what lies between its kernels. lanes: the channels of an invocation of a transform, of the input
    and of the result. suffix: of the libraries that transform lines. pack: makes what pack_cells() or
    pack_matrices() makes, for an edge. stack: shared_stack(), or the same for other types and devices.
    entered, completed: finish the kernels of the transforms. block: the channels of the products are a
    multiple of it. needs: features of the device.
    """

    dtype: DType
    lanes: tuple[int, int]
    suffix: str
    pack: Callable[[int], Pack]
    stack: Callable[[Call, tuple[int, int, int, int], Read, Read, Write], Kernel]
    entered: Callable[[Kernel], Kernel]
    completed: Callable[[Kernel], Kernel]
    block: int = BLOCK
    needs: frozenset[str] = frozenset({SUBGROUPS})


def _of_reals(call: Call) -> Arithmetic:
    def completed(kernel: Kernel) -> Kernel:
        return with_activation(replace(kernel, libraries=(*kernel.libraries, "winograd_reals")), call)

    lanes = _lanes(call, call.x.shape[3]), _lanes(call, call.y.shape[3])
    pack, stack, block, needs = pack_cells, shared_stack, BLOCK, frozenset({SUBGROUPS})
    if not call.device.software:
        pack, stack, block, needs = pack_matrices, workgroup_stack, COLUMNS, frozenset()
    packed = partial(_packed, pack)
    return Arithmetic(DType.FLOAT32, lanes, "", packed, stack, lambda kernel: kernel, completed, block, needs)


def _packed(pack: Callable[[Array, int], Array], edge: int) -> Pack:
    return Pack(pack, (edge,))


def with_winograd(call: Call, window: Window, others: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield ways for one group and a constant filter: Winograd's before others where it is quicker.

    Software has none for tensors of float16.
    """
    if fits(call, window) and (call.x.dtype is DType.FLOAT32 or not call.device.software):
        return with_tiles(call, window, others, _of_reals(call), TRANSFORMS)
    return iter(others)


def with_tiles(
    call: Call, window: Window, others: Iterable[Candidate], arithmetic: Arithmetic, edges: Iterable[int]
) -> Iterator[Candidate]:
    """Yield ways in tiles of some edges, before others where they are quicker and worth their pipelines."""
    if SUBGROUPS in arithmetic.needs and not subgroup(call.device):
        yield from others
        return
    ways = [way for way in (Tiling(call, edge) for edge in edges) if _counts(way)]
    ways.sort(key=lambda way: way.cost)
    first = [way for way in ways if comes_first(way)]
    last = [way for way in ways if way not in first]
    early, late = (
        chain.from_iterable(_candidates(way, window, arithmetic) for way in some) for some in (first, last)
    )
    yield from chain(early, others, late)


def _counts(way: Tiling) -> bool:
    """Tell whether shaders can count the elements between the kernels."""
    return fits_i32(way.cells * way.rows * max(way.call.x.shape[3], full(way.call.y.shape[3], BLOCK)))


def _candidates(way: Tiling, window: Window, arithmetic: Arithmetic) -> Iterator[Candidate]:
    """Yield a way with loops in its transforms, for software that compiles slowly, and written out."""
    name, needs = f"Winograd's F({way.edge} x {way.edge}, 3 x 3)", arithmetic.needs
    if way.call.device.software:
        yield Candidate(_kernels(way, window, name, arithmetic), name, needs, quick_to_compile=True)
    written_out = replace(way, loops=False)
    yield Candidate(_kernels(written_out, window, name, arithmetic), f"{name}, written out", needs)


def _lanes(call: Call, channels: int) -> int:
    """Return the channels of an invocation: one where code of four takes the CPU long to compile."""
    return 1 if call.device.software and call.x.dtype is DType.FLOAT32 else vec_width(channels)


def _kernels(way: Tiling, window: Window, name: str, arithmetic: Arithmetic) -> tuple[Kernel, Kernel, Kernel]:
    """Make the kernels that transform the input, multiply, and transform the products."""
    call, cells, reach = way.call, way.cells, way.edge + 2
    depth, channels = call.x.shape[3], call.y.shape[3]
    packed = full(channels, arithmetic.block)
    inputs = Scratch(TensorType(arithmetic.dtype, (cells, way.rows, depth)))
    products = Scratch(TensorType(arithmetic.dtype, (cells, way.rows, packed)))
    lanes, nbytes = arithmetic.lanes[0], 4 * cells * packed * depth
    pixels = Pitch(depth, lanes)
    to_input = _transform_kernel(
        way,
        window,
        ("winograd_input", reach, reach),
        depth,
        (Read("x", 0, lanes, pitch=pixels),),
        Write(output=inputs, width=lanes),
        {"C": depth // lanes, **pixels.params("x")},
        f"{name}: input of {way.count} tiles",
        arithmetic.suffix,
    )
    w = Read("w", 1, 4, arithmetic.pack(way.edge), dtype=arithmetic.dtype, nbytes=nbytes)
    sizes = cells, way.rows, depth, packed
    multiply = arithmetic.stack(call, sizes, Read("x", inputs), w, Write(output=products))
    lanes = arithmetic.lanes[1]
    to_result = _transform_kernel(
        way,
        window,
        ("winograd_output", reach, way.edge),
        channels,
        (Read("products", products, lanes), Read("bias", 2 if call.has(2) else None, lanes)),
        Write(width=lanes),
        {"N": channels // lanes, "PITCH": packed // lanes},
        f"{name}: results of {way.count} tiles",
        arithmetic.suffix,
    )
    return arithmetic.entered(to_input), multiply, arithmetic.completed(to_result)


def _transform_kernel(
    way: Tiling,
    window: Window,
    transform: tuple[str, int, int],
    channels: int,
    reads: tuple[Read, ...],
    write: Write,
    params: Mapping[str, Param],
    reason: str,
    suffix: str,
) -> Kernel:
    """Make the kernel of a transform of tiles with so many channels: its body, and as of transform()."""
    (body, cells, results), lanes = transform, write.width
    place = {"ACROSS": way.across, "DOWN": way.down, "ROWS": way.rows, "REACH": way.edge + 2}
    count = way.count * channels // lanes
    return Kernel(
        body=body,
        threads=flat_threads(count),
        workgroup=WORKGROUP,
        reads=reads,
        writes=(write,),
        params={
            **window_params(window, way.call.x.shape[1], way.call.x.shape[2]),
            **place,
            **params,
            "count": count,
        },
        constants={"EDGE": way.edge},
        libraries=(f"{body}_{way.edge}{suffix}",),
        lanes=lanes,
        loop_iterations=rounds(cells, results) if way.loops else 0,
        generated="\n".join(transform_of(cells, results, way.loops)),
        unrolled=True,
        reason=reason,
    )


def sums_of_sizes(evaluation: Evaluation) -> tuple[Array, int]:
    """Return Accuracy.detour of conv2d: what the algorithm adds up for each result, where it applies.

    All that it computes with is replaced by absolute values: |A^T| [(|G| |g| |G^T|) * (|B^T| |d| |B|)] |A|.
    n eps of this, for n operations one after the other, is what rounding costs (Higham, Accuracy and
    Stability of Numerical Algorithms, section 3.1). n: the channels, 4 for either dimension of B, 5 for
    either of A, 1 for the filter, and 1 for the bias.
    """
    call = evaluation.call
    if call.input(1).shape[3] != call.x.shape[3]:
        return np.zeros(()), 0
    (_, height, width, _), (_, rows, columns, _) = call.x.shape, call.input(1).shape
    window = check_window(call, (height, width), (rows, columns))
    if not fits(call, window):
        return np.zeros(()), 0
    x, filter = np.abs(evaluation.input(0)), np.abs(evaluation.input(1))
    found = [_sums_of_sizes(Tiling(call, edge), window, x, filter) for edge in TRANSFORMS]
    return np.maximum.reduce(found), call.x.shape[3] + 20


def _sums_of_sizes(way: Tiling, window: Window, x: Array, filter: Array) -> Array:
    a, g, b = map(np.abs, TRANSFORMS[way.edge])
    (batch, height, width, _), (top, left) = x.shape, window.before
    reach = len(b)
    down, across = ((n - 1) * way.edge + reach for n in (way.down, way.across))
    padded = np.pad(
        x,
        ((0, 0), (top, max(0, down - top - height)), (left, max(0, across - left - width)), (0, 0)),
    )
    tiles = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), axis=(1, 2))
    tiles = tiles[:, : down - reach + 1 : way.edge, : across - reach + 1 : way.edge]
    inputs = np.einsum("pi,nyxcij,qj->pqnyxc", b, tiles, b, optimize=True).reshape(reach**2, way.count, -1)
    filters = np.einsum("pk,oklc,ql->pqco", g, filter, g, optimize=True).reshape(reach**2, x.shape[3], -1)
    products = (inputs @ filters).reshape(reach, reach, batch, way.down, way.across, -1)
    sums = np.einsum("ip,pqnyxo,jq->nyixjo", a, products, a, optimize=True)
    whole = sums.reshape(batch, way.down * way.edge, way.across * way.edge, -1)
    return np.ascontiguousarray(whole[:, : window.out[0], : window.out[1]])
