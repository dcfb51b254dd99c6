"""The errors of elementary functions on a device, over all of float32: measured, not promised.

WGSL leaves much of them to the driver, and gpunn computes itself what it leaves too loose. These figures tell
one device from another; compare() tells whether a model keeps its tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.comparison.sides import Arithmetic
from gpunn.comparison.tolerance import bounds
from gpunn.compilation.compiler import compile_model
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.ops.accuracy import TINIEST
from gpunn.ops.elementwise import binary, unary
from gpunn.types import Array, float32

ELEMENTARY = "elementary"  # the library in shaders/lib for functions that drivers compute too loosely
TINY = 2.0**-10  # arguments below it in size are also judged apart
MANTISSAS = 256  # for each exponent and sign
ORDINARY = 1 << 15  # further arguments, in the range where a function is used most
PAIRS = (-8.0, 8.0)  # this range for functions of two arguments
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)
FLUSHED = 2 * TINIEST  # results below may be 0: what they are computed from may be subnormal


@dataclass(frozen=True, slots=True)
class FunctionError:
    """The largest errors of a function on a device.

    samples: how many arguments were tried. ulp: the largest error in units in the last place of the exact
    result; `at`: the arguments that have it. tiny_ulp: the same among arguments below 2^-10 in size. share:
    the largest error relative to the tolerance that gpunn has for the op. They are infinite if a result is
    finite and should not be, or the other way round.
    """

    op: str
    samples: int
    ulp: float
    at: tuple[float, ...]
    tiny_ulp: float
    share: float


def elementary_errors(
    backend: str, device: str | int | None = None, seed: int = 0
) -> tuple[FunctionError, ...]:
    """Measure every elementary function of float32 on a device; the arguments are those of Model.compile.

    Arguments of the functions: random mantissas for every exponent and sign, zeros, infinities, NaN, and the
    range where the function is used most. Exact results are numpy's, in float64. Subnormal numbers are left
    out, and results below 2^-125 may be 0. Raises the errors of compile().
    """
    graph, rng = Graph("elementary functions"), np.random.default_rng(seed)
    everywhere = _everywhere(rng)
    fed: list[Array] = []
    for name, arity, domain in _functions():
        ordinary = rng.uniform(*domain, (arity, ORDINARY)).astype(np.float32)
        shuffled = [everywhere, *(rng.permutation(everywhere) for _ in range(arity - 1))]
        arguments = [np.concatenate(both) for both in zip(shuffled, ordinary, strict=True)]
        inputs = [graph.input(f"{name} {k}", float32(a.size)) for k, a in enumerate(arguments)]
        graph.output(*graph.add(name, inputs))
        fed += arguments
    with compile_model(graph, backend, device=device) as compiled:
        results = compiled(*fed)
    arrays = iter(fed)
    return tuple(
        _error(operation, [next(arrays) for _ in operation.inputs], result)
        for operation, result in zip(graph.operations, results, strict=True)
    )


def _functions() -> Iterator[tuple[str, int, tuple[float, float]]]:
    """Return name, number of arguments and usual range of all that are more than arithmetic."""
    for line in unary.TABLE:
        if line.library or (line.fused is not None and line.fused.approximate):
            yield line.name, 1, line.domain
    for pair in binary.TABLE:
        if ELEMENTARY in pair.libraries:
            yield pair.name, 2, PAIRS


def _everywhere(rng: np.random.Generator) -> Array:
    """Return numbers of every exponent and sign, and special ones."""
    exponents = np.arange(1, 255, dtype=np.uint32).repeat(MANTISSAS) << 23
    bits = exponents | rng.integers(0, 1 << 23, exponents.size, np.uint32)
    positive = bits.view(np.float32)
    return np.concatenate([np.array(SPECIAL, np.float32), positive, -positive])


def _error(operation: Operation, arguments: Sequence[Array], found: Array) -> FunctionError:
    """Compare the results of an operation with the exact ones."""
    with np.errstate(all="ignore"):
        exact = np.asarray(operation.definition.reference(*(a.astype(np.float64) for a in arguments)))
        inputs = (operand for operand in operation.inputs if operand is not None)
        values = dict(zip(inputs, arguments, strict=True))
        (bound,) = bounds(operation, values, (exact,), Arithmetic.FLOAT32)
        off = _distance(found, exact)
        ulps = off / np.spacing(np.maximum(np.abs(exact), TINIEST).astype(np.float32)).astype(np.float64)
    ulps = np.where(np.isnan(ulps), np.where(off == 0, 0.0, np.inf), ulps)
    worst = int(ulps.argmax())
    tiny = np.all([np.abs(a) < TINY for a in arguments], axis=0)
    return FunctionError(
        operation.op,
        found.size,
        float(ulps[worst]),
        tuple(float(a[worst]) for a in arguments),
        float(ulps[tiny].max()),
        float((off / bound.limit).max()),
    )


def _distance(found: Array, exact: Array) -> Array:
    """Return how far results are from the exact ones; 0 for NaN and infinities that should be there."""
    off = np.abs(found.astype(np.float64) - exact)
    rounded = exact.astype(np.float32)  # infinite beyond float32
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    flushed = (np.abs(rounded) < FLUSHED) & (np.abs(found) < FLUSHED)
    return np.where(same | flushed, 0.0, np.where(np.isfinite(found) == np.isfinite(rounded), off, np.inf))
