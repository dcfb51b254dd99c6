"""Random numbers from a generator whose seeds are attributes: random_uniform, random_normal, multinomial.

The generator is Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011): 128 bits
for each number of a counter, keyed by the first of two seeds. The second seed is the upper half of the
counter; the lower half counts the blocks of 128 bits. Operand `drawn`, int64, is the number of blocks drawn
before; the last result is the number after the call. Equal seeds give LiteRT's numbers: uniform numbers and
choices to the bit, normal numbers up to the rounding of logarithm, angle, sine and cosine. Host and GPU give
the same uniform numbers to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpunn.kernel import Function, Kernel, Read, Write, ceil_div, flat_threads, size_of
from gpunn.ops.call import Call
from gpunn.ops.check import expect_int, expect_ints, expect_unquantised
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType

HOST_REASON = "random numbers are drawn on the host, as choices need them in float64"
ROUNDS = 10
MULTIPLIERS = np.array([0xD2511F53, 0xCD9E8D57], np.uint64)
KEY_STEPS = np.array([0x9E3779B9, 0xBB67AE85], np.uint64)
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
LEAST = np.float32(1e-7)  # in place of a smaller uniform number, of which there is a logarithm
RESERVED = 512  # blocks for each choice, of up to 4 at a time: LiteRT, multinomial


def _words(seed: int) -> tuple[int, int]:
    """Return the lower and the upper word of a seed."""
    return seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF


def _bits(seeds: Sequence[int], first: int, blocks: int) -> Array:
    """Compute the words of blocks first, first + 1 ..., as uint32 [blocks, 4]."""
    key, upper = (np.array(_words(s), np.uint64) for s in seeds)
    count = np.arange(blocks, dtype=np.uint64) + np.uint64(first % 2**64)
    even = np.stack([count & LOW, np.full(blocks, upper[0])])  # words 0 and 2 of each counter
    odd = np.stack([count >> HALF, np.full(blocks, upper[1])])
    for _ in range(ROUNDS):
        product = even * MULTIPLIERS[:, None]
        even, odd = (product[::-1] >> HALF) ^ odd ^ key[:, None], product[::-1] & LOW
        key = (key + KEY_STEPS) & LOW
    return np.stack([even[0], odd[0], even[1], odd[1]], axis=1).astype(np.uint32)


def _uniform(bits: Array) -> Array:
    """Convert bits to float32 numbers in 0 ... 1, without the end, of 23 bits each."""
    return np.asarray(((bits & 0x7FFFFF) | 0x3F800000).view(np.float32) - np.float32(1))


def _check(call: Call, drawn: int) -> TensorType:
    """Return the type of the count of blocks, input `drawn`; raise ModelError for a wrong count or wrong
    seeds.
    """
    expect_ints(call, "seeds", 2)
    found = expect_unquantised(call, drawn, DType.INT64)
    if found.rank:
        call.fail(f"input {drawn} must be one number, got {found}")
    return found


def _infer(call: Call) -> tuple[TensorType, TensorType]:
    shape = expect_ints(call, "shape")
    if min(shape, default=0) < 0:
        call.fail(f"shape must have entries >= 0, got {list(shape)}")
    return TensorType(DType.FLOAT32, shape), _check(call, 0)


def _draw(drawn: Array, shape: Sequence[int], seeds: Sequence[int]) -> tuple[Array, Array, int]:
    """Draw as many words as a shape takes, in blocks; return the new count of blocks and the elements too."""
    count = size_of(tuple(shape))
    blocks = ceil_div(count, 4)
    return _bits(seeds, int(drawn), blocks), np.asarray(drawn + blocks), count


def _kernels(normal: bool) -> Callable[[Call], tuple[Kernel, ...]]:
    """Make a kernel function: a block of numbers for each invocation, and one addition for what was drawn."""

    def kernels(call: Call) -> tuple[Kernel, ...]:
        blocks = ceil_div(call.y.size, 4)
        key, high = map(_words, call["seeds"])
        draw = Kernel(
            body="philox",
            threads=flat_threads(blocks),
            reads=(Read("drawn", 0),),
            params={"count": blocks, "elements": call.y.size, "key": key, "high": high},
            constants={"NORMAL": int(normal)},
            loop_iterations=ROUNDS + 4,
            reason="four numbers of each block of random bits",
        )
        count = Kernel(
            body="unary",
            threads=(1, 1, 1),
            workgroup=(1, 1, 1),
            reads=(Read("x", 0),),
            writes=(Write(output=1),),
            params={"count": 1, "blocks": blocks},
            functions={"apply": Function(("x",), "i64_add(x, I64(p.blocks, 0u))")},
            reason="the number of blocks that are drawn",
        )
        return (draw, count) if blocks else (count,)

    return kernels


@op(_infer, _kernels(normal=False), precise=True)
def random_uniform(drawn: Array, *, shape: Sequence[int], seeds: Sequence[int]) -> tuple[Array, Array]:
    """Draw float32 numbers of `shape`, equally likely in 0 ... 1 without the end: (numbers, blocks drawn).

    Raises ModelError for a negative extent, and unless there are two seeds. TFLite schema, RandomOptions.
    """
    bits, after, count = _draw(drawn, shape, seeds)
    return _uniform(bits).reshape(-1)[:count].reshape(shape), after


@op(_infer, _kernels(normal=True), precise=True)
def random_normal(drawn: Array, *, shape: Sequence[int], seeds: Sequence[int]) -> tuple[Array, Array]:
    """Draw float32 numbers of `shape` from the standard normal distribution: (numbers, blocks drawn).

    Each two words give two numbers (Box and Muller, A note on the generation of random normal deviates,
    1958). Raises ModelError as random_uniform does. TFLite schema, RandomOptions.
    """
    bits, after, count = _draw(drawn, shape, seeds)
    first, second = np.moveaxis(_uniform(bits).reshape(-1, 2), 1, 0)
    radius = np.sqrt(-2 * np.log(np.maximum(first, LEAST)))
    angle = (2 * np.pi * second.astype(np.float64)).astype(np.float32)
    pairs = np.stack([np.sin(angle) * radius, np.cos(angle) * radius], axis=1)
    return pairs.reshape(-1)[:count].reshape(shape), after


def _infer_multinomial(call: Call) -> tuple[TensorType, TensorType]:
    logits = expect_unquantised(call, 0, DType.FLOAT32)
    samples = expect_int(call, "samples", call["samples"])
    if logits.rank != 2 or not logits.shape[1] or samples < 0:
        call.fail(f"takes scores [N, classes] and 0 or more samples, got {logits} and {samples}")
    if call["dtype"] not in ("int32", "int64"):
        call.fail(f"dtype must be int32 or int64, got {call['dtype']!r}")
    return TensorType(DType(call["dtype"]), (logits.shape[0], samples)), _check(call, 1)


@op(_infer_multinomial, host_reason=HOST_REASON, precise=True)
def multinomial(
    logits: Array, drawn: Array, *, samples: int, seeds: Sequence[int], dtype: str
) -> tuple[Array, Array]:
    """Draw class numbers [N, samples] with probabilities proportional to exp(logits): (numbers, blocks
    drawn).

    logits: float32 [N, classes]; scores that are not finite are never chosen. Raises ModelError for other
    shapes, a negative number of samples, and other dtypes than int32 and int64. TFLite schema, RandomOptions.
    """
    count = len(logits) * samples
    words = _bits(seeds, int(drawn), ceil_div(count, 2)).reshape(-1, 2)[:count].astype(np.uint64)
    mantissa = (words[:, 0] & np.uint64(0xFFFFF)) << HALF | words[:, 1]
    uniform = (mantissa | np.uint64(1023 << 52)).view(np.float64) - 1
    finite = np.isfinite(logits)
    best = np.max(np.where(finite, logits, -np.inf), axis=1, keepdims=True)
    weights = np.where(finite, np.exp(np.where(finite, logits - best, 0).astype(np.float64)), 0)
    rows = zip(np.cumsum(weights, axis=1), uniform.reshape(len(logits), samples), strict=True)
    chosen = [np.searchsorted(sums, share * sums[-1], side="right") for sums, share in rows]
    after = drawn + len(logits) * ceil_div(samples, 4) * 4 * RESERVED
    return np.array(chosen, dtype).reshape(len(logits), samples), np.asarray(after)


OPS: tuple[Op, ...] = (random_uniform, random_normal, multinomial)
