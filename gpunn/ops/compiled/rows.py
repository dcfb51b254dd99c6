"""Functions of single bytes, as loops of which the vectors have machine code of their own.

A table is read by AVX-512 VBMI's VPERMI2B, which takes 64 bytes of two vectors by the lower seven bits of
others, or by AVX2's VPSHUFB, which takes 16 bytes of one by the lower four, in both halves of a vector (Intel
64 and IA-32 Architectures Software Developer's Manual, volumes 2B and 2D).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.vectors import BITS, Bounds, Code
from gpunn.types import Array

LANES = 8  # of a vector, for any CPU
ENTRIES = 64  # of a table, in a vector of bytes of AVX-512
HALF, QUARTER = 32, 16  # bytes of a vector of AVX2, and entries that it takes bytes of


def lines(
    some: tuple[int, int],
    lanes: int,
    x: Array,
    rows: Array,
    bounds: tuple[float, float],
    flip: int,
    out: Array,
) -> None:
    """Convert bytes [P, C] to others, as channel_lines.ChannelLines.

    some: the pixels, from one to another. lanes: of a vector. rows: for each channel the factor, an end of
    its products, and the summands below this end and from it on. flip: bits of x and of results that are
    turned round.
    """
    low, high = bounds
    channels = x.shape[1]
    factor, end, below, above = rows[0], rows[1], rows[2], rows[3]
    ends = low, high, flip
    whole = channels // lanes * lanes
    for p in range(*some):
        for k in range(0, whole, lanes):
            lines_of_vector(x, rows, ends, (p, k, lanes), out)
        row, to = x[p], out[p]
        for k in range(whole, channels):
            t = np.float32(row[k] ^ flip) * factor[k]
            t += below[k] if t < end[k] else above[k]
            t = low if t < low else t
            to[k] = np.int32(high if t > high else t) ^ flip


def lines_of_vector(x: Array, rows: Array, ends: Bounds, place: tuple[int, int, int], out: Array) -> None:
    """Write what lines() writes for some channels of a pixel."""
    pixel, channel, lanes = place
    part, (low, high, flip) = slice(channel, channel + lanes), ends
    factor, end, below, above = rows[:, part]
    numbers = (x[pixel, part] ^ flip).astype(np.float32) * factor
    numbers += np.where(numbers < end, below, above)
    out[pixel, part] = numbers.clip(low, high).astype(np.int32) ^ flip


def lines_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of lines_of_vector()."""
    x, rows, ends, (pixel, channel, _), out = operands
    of = code.builder
    channels = of.extract_value(x.shape, 1)
    place = of.add(of.mul(pixel, channels), channel)
    source, target = (of.gep(a.data, [place]) for a in (x, out))
    kind, real = x.data.type.pointee, code.of(rows.data.type.pointee)
    starts = [of.gep(rows.data, [of.add(of.mul(code.index(k), channels), channel)]) for k in range(4)]
    factor, end, below, above = (code.load(start, real) for start in starts)
    flip = code.splat(of.trunc(ends[2], kind))
    scaled = of.fmul(of.uitofp(of.xor(code.load(source, code.of(kind)), flip), real), factor)
    number = of.fadd(scaled, of.select(of.fcmp_ordered("<", scaled, end), below, above))
    code.store(code.stored(number, ends, kind), target)


def channel_rows(some: tuple[int, int], values: Array, table: Array, out: Array) -> None:
    """Write the numbers [R, C] of channels for lines(): those of a table [R, 256] for their values.

    Channels repeat: `values` are those of the first ones.
    """
    count = len(values)
    for k in range(*some):
        value = values[k % count]
        for row in range(len(table)):
            out[row, k] = table[row, value]


def look_up(some: tuple[int, int], x: Array, table: Array, out: Array) -> None:
    """Write the entries of a table of 256 bytes for some bytes; all are flat."""
    begin, end = some
    whole = begin + (end - begin) // ENTRIES * ENTRIES
    for k in range(begin, whole, ENTRIES):
        look_up_vector(x, table, k, out)
    for k in range(whole, end):
        out[k] = table[x[k]]


def look_up_vector(x: Array, table: Array, first: int, out: Array) -> None:
    """Write what look_up() writes for ENTRIES bytes from the first one on."""
    for k in range(first, first + ENTRIES):
        out[k] = table[x[k]]


def look_up_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of look_up_vector(): the highest bit tells which half of the table has the entry."""
    x, table, first, out = operands
    of = code.builder
    source, target = (of.gep(a.data, [first]) for a in (x, out))
    kind = code.bytes(ENTRIES)
    places = code.load(source, kind)
    parts = [code.load(code.behind(table.data, k * ENTRIES), kind) for k in range(4)]
    lower, upper = (code.call("vpermi2var.qi", parts[k], places, parts[k + 1]) for k in (0, 2))
    high = of.icmp_signed("<", places, kind(None))
    code.store(of.select(high, upper, lower), target)


def look_up_in_parts_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of look_up_vector() for AVX2: the upper four bits choose among 16 parts of the table."""
    x, table, first, out = operands
    source, target = (code.builder.gep(a.data, [first]) for a in (x, out))
    for begin in range(0, ENTRIES, HALF):
        places = code.load(code.behind(source, begin), code.bytes(HALF))
        code.store(_entries(code, table.data, places, BITS), code.behind(target, begin))


def _entries(code: Code, table: Any, places: Any, bits: int) -> Any:
    """Return the entries at places in a table, by so many of their lower bits."""
    of, kind = code.builder, places.type
    if 1 << bits == QUARTER:
        part = code.load(table, code.bytes(QUARTER))
        return code.shuffled_bytes(part, of.and_(places, kind([QUARTER - 1] * HALF)))
    lower, upper = (_entries(code, code.behind(table, k << bits - 1), places, bits - 1) for k in range(2))
    highest = of.shl(places, kind([BITS - bits] * HALF))
    return of.select(of.icmp_signed("<", highest, kind(None)), upper, lower)


TABLES = {"+avx512vbmi": look_up_code, "+avx2": look_up_in_parts_code}  # by the feature of a CPU
