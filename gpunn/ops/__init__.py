"""Every op by name, gathered from the families: one package a family, one OPS a module; fusions."""

from __future__ import annotations

from gpunn.ops import control, random, text
from gpunn.ops.contraction import (
    batch_matmul,
    conv,
    conv3d,
    dot_general,
    filter_gradient,
    matmul,
    separable,
    transpose_conv,
    transpose_conv3d,
)
from gpunn.ops.elementwise import binary, cast, complex64, quantize, select, several, slopes, unary
from gpunn.ops.fusion import Fusion
from gpunn.ops.indexing import embeddings, find, gather, lookup, place, scatter, segment, slices
from gpunn.ops.movement import basic, create, dilate, matrix, rearrange, repeat, split, strided_slice
from gpunn.ops.normalization import attention, normalize
from gpunn.ops.op import Op
from gpunn.ops.recurrent import lstm, recurrence, rnn
from gpunn.ops.reduction import order, pool, pool_position, reduce, scan, spread, window
from gpunn.ops.signal import mfcc, rfft, spectrogram
from gpunn.ops.vision import crop, detection, poses, resize, suppression, warp

_FAMILIES = (
    unary.OPS,
    binary.OPS,
    slopes.OPS,
    several.OPS,
    select.OPS,
    cast.OPS,
    complex64.OPS,
    conv.OPS,
    filter_gradient.OPS,
    conv3d.OPS,
    transpose_conv.OPS,
    transpose_conv3d.OPS,
    pool.OPS,
    pool_position.OPS,
    spread.OPS,
    matmul.OPS,
    batch_matmul.OPS,
    dot_general.OPS,
    reduce.OPS,
    scan.OPS,
    window.OPS,
    order.OPS,
    basic.OPS,
    strided_slice.OPS,
    dilate.OPS,
    split.OPS,
    create.OPS,
    repeat.OPS,
    rearrange.OPS,
    matrix.OPS,
    normalize.OPS,
    resize.OPS,
    crop.OPS,
    quantize.OPS,
    find.OPS,
    gather.OPS,
    scatter.OPS,
    place.OPS,
    segment.OPS,
    slices.OPS,
    embeddings.OPS,
    lookup.OPS,
    detection.OPS,
    suppression.OPS,
    warp.OPS,
    poses.OPS,
    rfft.OPS,
    spectrogram.OPS,
    mfcc.OPS,
    random.OPS,
    text.OPS,
    rnn.OPS,
    recurrence.OPS,
    lstm.OPS,
    control.OPS,
)

OPS: dict[str, Op] = {op.name: op for family in _FAMILIES for op in family}

FUSIONS: dict[tuple[str, ...], Fusion] = {
    tuple(op.name for op in f.ops): f for f in (separable.FUSION, *attention.FUSIONS)
}
