"""Choice of a way to compute a Fourier transform of any length, and the errors on that way.

The discrete Fourier transform of x, of length n, is y[k] = sum over j of x[j] w^(j k), w = exp(-2 pi i / n).

A length is the product of radices: fours and prime numbers. Each radix is a stage. It makes transforms of
length L r of those of length L; each element is a sum of r products (Stockham, decimation in time). A pass is
one dispatch: consecutive stages whose radices multiply to MOST or less. Between them elements stay in the
memory of a workgroup.

A length with a prime factor over DIRECT becomes a convolution (Bluestein 1970, IEEE Trans. Audio
Electroacoust. 18, 451): with the chirp c[j] = exp(-pi i j^2 / n), y[k] is c[k] times the sum over j of
x[j] c[j] / c[k - j]. Two transforms compute it. Their length is a power of two, 2 n - 1 or more.

Errors, with u = eps / 2. A product with a root that is rounded to float32 is off by 3.25 u of its size
(Brent, Percival and Zimmermann 2007, Math. Comput. 76, 1469: sqrt(5) u for the product). A sum of r terms
adds r - 1 roundings of the sum of their sizes. So a stage adds (r + 3) u of the sum of all |x| that lead to
an element: |error| <= growth * eps * sum |x|.
Pairs of real numbers are the elements of a transform of half the length, whose elements k and n / 2 - k make
element k of the result, with twice their errors and 4 roundings.
With chirps a bound on sums of squares is better. A stage multiplies the root of the sum of squares by
sqrt(r), and its errors by sqrt(r) more. The convolution multiplies by the largest element of the chirp's
transform.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from gpunn.types import Array

MOST = 1024  # elements of a pass: twice as many fit into the 16 KiB of memory that every workgroup has
DIRECT = 128  # the greatest prime that is a radix: above, two transforms of a power of two are faster
_PRODUCT = 2  # eps: of a product with a root, rounded up


@dataclass(frozen=True, slots=True)
class Transform:
    """The way of a length: the radices of each pass.

    chirp: the length of the convolution, 0 without. packed: the passes transform half as many pairs of reals.
    """

    length: int
    passes: tuple[tuple[int, ...], ...]
    chirp: int = 0
    packed: bool = False

    @property
    def longest(self) -> int:
        """Return the elements of the longest transform on the way."""
        return max(self.length, self.chirp)

    @property
    def growth(self) -> float:
        """Return how many eps of the sum of all |x| an element may be off by, without chirps."""
        between = _PRODUCT * (len(self.passes) - 1)
        found = between + sum((r + 3) / 2 for radices in self.passes for r in radices)
        return 2 * (found + _PRODUCT) if self.packed else found

    @property
    def mean_growth(self) -> float:
        """Return how many eps of the root of the sum of squares of the results all errors may amount to."""
        between = _PRODUCT * (len(self.passes) - 1)
        radices = [*(r for radices in self.passes for r in radices), *[2] * self.packed]
        once = between + sum((r + 3) / 2 * math.sqrt(r) for r in radices)
        if not self.chirp:
            return once
        largest = float(np.abs(chirp_spectrum(self.length, self.chirp)).max()) * self.chirp
        return (2 * once + 4 * _PRODUCT) * largest / math.sqrt(self.length)


@functools.lru_cache(maxsize=64)
def transform(length: int) -> Transform:
    """Choose the way for a length of at least 1."""
    factors = _prime_factors(length)
    if max(factors, default=1) > DIRECT:
        chirp = 1 << (2 * length - 2).bit_length()
        return Transform(length, _passes(chirp, _prime_factors(chirp)), chirp)
    return Transform(length, _passes(length, factors))


def real_transform(length: int) -> Transform:
    """Choose the way for real numbers: pairs of them, if their transform is one pass."""
    half = transform(length // 2) if length % 2 == 0 else None
    if half is None or half.chirp or len(half.passes) > 1:
        return transform(length)
    return Transform(length, half.passes, packed=True)


def _prime_factors(n: int) -> list[int]:
    found, divisor = [], 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            found.append(divisor)
            n //= divisor
        divisor += 1
    return [*found, n] if n > 1 else found


def _passes(length: int, factors: list[int]) -> tuple[tuple[int, ...], ...]:
    """Share the radices among as few passes as hold them, of about the same size."""
    twos = factors.count(2)
    radices = sorted((*(f for f in factors if f != 2), *[4] * (twos // 2), *[2] * (twos % 2)), reverse=True)
    for count in range(max(1, math.ceil(math.log(length, MOST) - 1e-9)), len(radices) + 2):
        groups: list[list[int]] = [[] for _ in range(count)]
        for radix in radices:
            min(groups, key=math.prod).append(radix)
        if max(map(math.prod, groups)) <= MOST:
            break
    return tuple(tuple(group) for group in groups)


@functools.lru_cache(maxsize=16)
def roots(length: int) -> Array:
    """Return exp(-2 pi i k / length) for k below the length, as complex64, each rounded once."""
    return _turns(np.arange(length), length).astype(np.complex64)


def _turns(k: Array, length: int) -> Array:
    """Compute exp(-2 pi i k / length) in double precision; quarters of a turn are exact."""
    angle = 2 * np.pi * (k % length) / length
    found = np.cos(angle) - 1j * np.sin(angle)
    quarters = 4 * (k % length)
    exact = np.array([1, -1j, -1, 1j])[quarters // length]
    return np.asarray(np.where(quarters % length == 0, exact, found))


def _chirp(length: int) -> Array:
    j = np.arange(length, dtype=np.int64)
    return _turns(j * j, 2 * length)


@functools.lru_cache(maxsize=16)
def chirp(length: int) -> Array:
    """Return exp(-pi i j^2 / length) for j below the length, as complex64."""
    return _chirp(length).astype(np.complex64)


@functools.lru_cache(maxsize=16)
def chirp_spectrum(length: int, size: int) -> Array:
    """Return the transform of the chirp's reciprocal, wrapped around `size`, divided by that; complex64."""
    wrapped = np.zeros(size, np.complex128)
    wrapped[:length] = _chirp(length).conj()
    wrapped[size - length + 1 :] = wrapped[1:length][::-1]
    return (np.fft.fft(wrapped) / size).astype(np.complex64)
