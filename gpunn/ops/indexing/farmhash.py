"""Fingerprint64 of FarmHash, for many keys of one length at once.

AOSP and TFLite compute LSH_PROJECTION with this function. google/farmhash defines it: namespace farmhashna,
Hash64. The formulas and constants here are the same, arranged over numpy arrays: each variable holds one
64-bit number for each key. The package pyfarmhash has the same function for one key, but no wheels for macOS
and for most Pythons on other systems.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpunn.types import Array

Words = npt.NDArray[np.uint64]

_K0 = np.uint64(0xC3A5C85C97CB3127)
_K1 = np.uint64(0xB492B66FBE98F273)
_K2 = np.uint64(0x9AE16A3B2F90404F)
_SEED = 81
_START = (_SEED * int(_K1) + 113) % 2**64


def fingerprint64(keys: Array) -> Words:
    """Compute the fingerprints of keys uint8 [..., length] with a length of 4 or more: uint64 [...]."""
    length = keys.shape[-1]
    flat = keys.reshape(-1, length)
    if length <= 16:
        result = _up_to_16(flat)
    elif length <= 32:
        result = _up_to_32(flat)
    elif length <= 64:
        result = _up_to_64(flat)
    else:
        result = _long(flat)
    return result.reshape(keys.shape[:-1])


def _fetch(keys: Array, at: int, size: int = 8) -> Words:
    """Read `size` bytes from byte `at` on as a little-endian number; a negative `at` counts from the end."""
    at %= keys.shape[1]
    word = np.ascontiguousarray(keys[:, at : at + size]).view(f"<u{size}")
    return word[:, 0].astype(np.uint64)


def _rotate(x: Words, right: int) -> Words:
    return (x >> np.uint64(right)) | (x << np.uint64(64 - right))


def _fold(x: Words) -> Words:
    return x ^ (x >> np.uint64(47))


def _join(u: Words, v: Words, mul: Words | np.uint64) -> Words:
    """Hash two numbers into one."""
    a = _fold((u ^ v) * mul)
    return _fold((v ^ a) * mul) * mul


def _multiplier(length: int) -> np.uint64:
    return np.uint64((int(_K2) + 2 * length) % 2**64)


def _up_to_16(keys: Array) -> Words:
    length = keys.shape[1]
    mul = _multiplier(length)
    if length >= 8:
        a, b = _fetch(keys, 0) + _K2, _fetch(keys, -8)
        return _join(_rotate(b, 37) * mul + a, (_rotate(a, 25) + b) * mul, mul)
    first = (_fetch(keys, 0, 4) << np.uint64(3)) + np.uint64(length)
    return _join(first, _fetch(keys, -4, 4), mul)


def _halves(keys: Array, factor: np.uint64, mul: np.uint64) -> tuple[Words, Words, Words]:
    """Hash keys of 17 to 64 bytes to mixtures of both ends; also return the first word times `factor`."""
    a, b = _fetch(keys, 0) * factor, _fetch(keys, 8)
    c, d = _fetch(keys, -8) * mul, _fetch(keys, -16) * _K2
    return _rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c, a


def _up_to_32(keys: Array) -> Words:
    mul = _multiplier(keys.shape[1])
    y, z, _ = _halves(keys, _K1, mul)
    return _join(y, z, mul)


def _up_to_64(keys: Array) -> Words:
    mul = _multiplier(keys.shape[1])
    y, other, a = _halves(keys, _K2, mul)
    z = _join(y, other, mul)
    e, f = _fetch(keys, 16) * mul, _fetch(keys, 24)
    g, h = (y + _fetch(keys, -32)) * mul, (z + _fetch(keys, -24)) * mul
    return _join(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, mul)


class _State:
    """The running hash of keys over 64 bytes: x, y, z and the pairs v and w."""

    def __init__(self, keys: Array) -> None:
        count = len(keys)
        self.keys = keys
        self.y = np.full(count, _START, np.uint64)
        self.z = _fold(self.y * _K2 + np.uint64(113)) * _K2
        self.x = np.full(count, _SEED, np.uint64) * _K2 + _fetch(keys, 0)
        self.v = self.w = (np.zeros(count, np.uint64), np.zeros(count, np.uint64))

    def take(self, at: int, mul: Words | np.uint64, times: int = 1) -> None:
        """Take in the 64 bytes from `at` on."""
        keys, weight = self.keys, np.uint64(times)
        x = _rotate(self.x + self.y + self.v[0] + _fetch(keys, at + 8), 37) * mul ^ self.w[1] * weight
        y = _rotate(self.y + self.v[1] + _fetch(keys, at + 48), 42) * mul
        y += self.v[0] * weight + _fetch(keys, at + 40)
        z = _rotate(self.z + self.w[0], 33) * mul
        self.v = self._pair(at, self.v[1] * mul, x + self.w[0])
        self.w = self._pair(at + 32, z + self.w[1], y + _fetch(keys, at + 16))
        self.x, self.y, self.z = z, y, x

    def _pair(self, at: int, a: Words, b: Words) -> tuple[Words, Words]:
        """Hash 32 bytes and two seeds into two numbers."""
        first, second, third, fourth = (_fetch(self.keys, at + 8 * k) for k in range(4))
        a = a + first
        b = _rotate(b + a + fourth, 21)
        whole = a + second + third
        return whole + fourth, b + _rotate(whole, 44) + a


def _long(keys: Array) -> Words:
    length = keys.shape[1]
    state = _State(keys)
    for at in range(0, (length - 1) // 64 * 64, 64):
        state.take(at, _K1)
    mul = _K1 + ((state.z & np.uint64(0xFF)) << np.uint64(1))
    w = state.w[0] + np.uint64((length - 1) % 64)
    v = state.v[0] + w
    state.v, state.w = (v, state.v[1]), (w + v, state.w[1])
    state.take(length - 64, mul, 9)
    left = _join(state.v[0], state.w[0], mul) + _fold(state.y) * _K0 + state.z
    return _join(left, _join(state.v[1], state.w[1], mul) + state.x, mul)
