"""Instructions that add products of small integers to sums of 32 bits, in each lane of a vector.

VNNI's VPDPBUSD multiplies four neighbouring bytes without a sign with four that have one, VPDPWSSD two
numbers of 16 bits with two others, and both add the products to a sum. AVX-512 VNNI has 16 lanes, AVX-VNNI 8.
AVX2 has 8, and VPMADDWD, which multiplies like VPDPWSSD and adds nothing (Intel 64 and IA-32 Architectures
Software Developer's Manual, volumes 2B and 2C). Compilers make neither VPDPBUSD nor this of a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpunn.ops.compiled.vectors import BITS, Code, Sizes

Add = Callable[[Code, Any, Any, Any], Any]  # sums with products of two vectors


class IntegerProducts(NamedTuple):
    """The code that adds products: of four `bytes` in each lane, of two numbers of 16 bits, or `pairs`.

    The first factors of bytes have no sign. sizes: of vectors and tiles.
    """

    sizes: Sizes
    bytes: Add
    pairs: Add


def _vpdpbusd(code: Code, sums: Any, seen: Any, weights: Any) -> Any:
    return code.call("vpdpbusd", sums, seen, weights)


def _vpdpwssd(code: Code, sums: Any, seen: Any, weights: Any) -> Any:
    return code.call("vpdpwssd", sums, seen, weights)


def _add_pairs(code: Code, sums: Any, seen: Any, weights: Any) -> Any:
    return code.builder.add(sums, code.pair_products(seen, weights))


def _bytes_as_pairs(code: Code, sums: Any, seen: Any, weights: Any) -> Any:
    """Add the products of the first and the third byte, then those of the second and the fourth.

    LLVM widens the weights of a vector once for all pixels of a tile, and a pixel once for all vectors.
    """
    of, byte = code.builder, code.halves(BITS)
    seen, weights = (of.bitcast(numbers, byte.type) for numbers in (seen, weights))
    first = of.and_(seen, code.halves((1 << BITS) - 1)), of.ashr(of.shl(weights, byte), byte)
    second = of.lshr(seen, byte), of.ashr(weights, byte)
    for numbers, factors in (first, second):
        sums = of.add(sums, code.pair_products(numbers, factors))
    return sums


# By the feature of a CPU that they need. Of the 32 registers of AVX-512, sums, weights and what a pixel has
# take 27, of the 16 of AVX 15; with AVX2 they take 14, as weights and pixels have two each.
INTEGER_PRODUCTS = {
    "+avx512vnni": IntegerProducts(Sizes(16, 12), _vpdpbusd, _vpdpwssd),
    "+avxvnni": IntegerProducts(Sizes(8, 6), _vpdpbusd, _vpdpwssd),
    "+avx2": IntegerProducts(Sizes(8, 4), _bytes_as_pairs, _add_pairs),
}
