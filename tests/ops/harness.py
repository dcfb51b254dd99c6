"""Checks of an op: a backend's result against the float64 reference, and the reference against LiteRT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.device import SUBGROUPS
from gpunn.graph.exact import widen
from gpunn.graph.operation import Operation
from gpunn.kernel import Candidate, Kernel
from gpunn.model import Model
from gpunn.ops.contraction.broadcast_tile import subgroup
from gpunn.types import Array, DType, TensorType
from tests.gpu import why_no_gpu
from tests.tflite_builder import litert_run, single_op

EPS = float(np.finfo(np.float32).eps)
ATOL = 1e-5
RTOL = 5 * EPS


def random(seed: int, *shape: int, low: float = -4, high: float = 4) -> Array:
    """Return float32 values of a seeded generator, uniform in a range."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def random_complex(seed: int, *shape: int) -> Array:
    """Return complex64 values whose parts random() draws."""
    return np.asarray(random(seed, *shape) + 1j * random(seed + 100, *shape), np.complex64)


def type_of(array: Array) -> TensorType:
    """Return the TensorType of an array."""
    return TensorType(DType.of(array.dtype), array.shape)


def model_of(
    op: str, inputs: Sequence[Array | None], attrs: Mapping[str, Any], constants: Sequence[int] = ()
) -> Model:
    """Return a model of one operation; the inputs at the positions `constants` are constants."""
    model = Model(op)
    operands = [
        None
        if value is None
        else model.constant(f"constant_{k}", value)
        if k in constants
        else model.input(f"input_{k}", type_of(value))
        for k, value in enumerate(inputs)
    ]
    model.output(*model.add(op, operands, attrs))
    return model


def reference(operation: Operation, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
    """Compute the operation's results in float64; integers stay integers."""
    return operation.evaluate([v if v is None else widen(v) for v in inputs])


def check(
    op: str,
    inputs: Sequence[Array | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    backend: str,
    constants: Sequence[int] = (),
    atol: float | Array = ATOL,
    rtol: float = RTOL,
    host: str = "",
) -> tuple[Array, ...]:
    """Run one operation and compare with its float64 reference; return the results.

    backend: "cpu" or "webgpu" (the fixture of that name). Callers that pass other tolerances than the
    defaults give a reason. host: part of the reason why the operation has no GPU kernel; without it, running
    anywhere else than on the GPU is an error.
    """
    model = model_of(op, inputs, attrs or {}, constants)
    operation = model.operations[0]
    expected = reference(operation, inputs)
    fed = [v for k, v in enumerate(inputs) if v is not None and k not in constants]
    with model.compile(backend=backend) as compilation:
        for placement in compilation.placement:
            if backend == "webgpu" and placement.backend != "alias" and placement.depth == 0:
                assert (placement.backend == "cpu") == bool(host), placement.reason
                assert host in placement.reason
        found = compilation(*fed)
    results = found if isinstance(found, tuple) else (found,)
    assert len(results) == len(expected)
    for result, wanted, operand in zip(results, expected, operation.outputs, strict=True):
        assert type_of(result) == operand.type
        assert wanted.shape == operand.type.shape
        assert_close(
            result, wanted, atol, rtol, f"{op}{[v if v is None else v.shape for v in inputs]} {attrs}"
        )
    return results


def take_candidate(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """Make lowering take the candidate at a place if a kernel function yields several."""

    def chosen(candidates: Iterator[Candidate], *_: object) -> Sequence[Kernel]:
        return next(islice(candidates, place, None)).kernels

    monkeypatch.setattr("gpunn.backends.webgpu.lower.choose", chosen)


def take_body(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Make lowering take the first candidate with a kernel of that body, or with a library of that name."""

    def chosen(candidates: Iterator[Candidate], *_: object) -> Sequence[Kernel]:
        return next(c.kernels for c in candidates if any(body in (k.body, *k.libraries) for k in c.kernels))

    monkeypatch.setattr("gpunn.backends.webgpu.lower.choose", chosen)


def over_loop_limit(backend: str) -> str:
    """Return a part of the reason why very long loops run on the host; empty if nothing limits them."""
    if backend == "cpu" or open_device(None, False).properties.max_loop_iterations is None:
        return ""
    return "loop iterations of one invocation"


def limit_device(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
    """Let kernels be made as for a device with other properties, for example max_loop_iterations=8.

    Without an adapter there is nothing to limit: tests of the CPU backend go on.
    """
    if why_no_gpu():
        return
    device = open_device(None, False)
    monkeypatch.setattr(device, "properties", replace(device.properties, **limits))


def as_software(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
    """Let kernels be made as for software, which few invocations occupy, and with other limits."""
    limit_device(monkeypatch, software=True, parallel_invocations=1, **limits)


def shares_rows(*sizes: int) -> bool:
    """Tell whether the adapter is offered products whose rows a subgroup shares, of these sizes if any."""
    device = open_device(None, False).properties
    size = subgroup(device) if SUBGROUPS in device.features else 0
    return size in sizes if sizes else size > 0


def require_shared_rows(*sizes: int) -> None:
    """Skip the test where shares_rows() is false."""
    if not shares_rows(*sizes):
        known = f" of {' or '.join(map(str, sizes))}" if sizes else ""
        pytest.skip(f"the adapter is not known to have subgroups{known} that share rows")


def assert_close(
    result: Array, expected: Array, atol: float | Array = ATOL, rtol: float = RTOL, what: str = ""
) -> None:
    """Assert |result - expected| <= atol + rtol |expected|; NaN equals NaN, infinities those of their sign.

    Expected values beyond float32 count as infinities. Both parts of complex numbers may be off by what holds
    for the absolute value.
    """
    assert result.shape == expected.shape, what
    if expected.dtype.kind == "c":
        with np.errstate(all="ignore"):
            limit = np.nan_to_num(atol + rtol * np.abs(expected), posinf=0.0)
        assert_close(pairs(result), pairs(expected), np.expand_dims(limit, -1), 0, what)
        return
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(result, expected, err_msg=what)
        return
    with np.errstate(all="ignore"):
        found = result.astype(np.float64)
        expected = np.where(np.abs(expected) > np.finfo(np.float32).max, np.inf * expected, expected)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        bad = ~(same | (np.abs(found - expected) <= atol + rtol * np.abs(expected)))
    if bad.any():
        at = tuple(int(i[0]) for i in np.nonzero(bad))
        pytest.fail(
            f"{what}: {bad.sum()} of {bad.size} differ; at {at}: {found[at]!r}, expected {expected[at]!r}"
        )


def pairs(x: Array) -> Array:
    """Return real and imaginary parts along a new last axis."""
    return np.stack((x.real, x.imag), axis=-1)


def check_litert(
    op: str,
    inputs: Sequence[Array],
    attrs: Mapping[str, Any],
    operator: str,
    options: Mapping[str, Any] | None = None,
    *,
    operands: Sequence[Array] = (),
    version: int = 1,
    atol: float = ATOL,
    rtol: float = RTOL,
) -> None:
    """Compare an op's float64 reference with what LiteRT computes for a TFLite operator.

    operands: constant tensors that the operator takes after the inputs; the op has attributes instead.
    Skips the test if ai-edge-litert is not installed.
    """
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    operation = model_of(op, inputs, attrs).operations[0]
    expected = reference(operation, inputs)
    model = single_op(
        operator,
        [*map(type_of, inputs), *operands],
        [o.type for o in operation.outputs],
        options or {},
        version=version,
    )
    results = litert_run(model, inputs)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert_close(result, wanted, atol, rtol, f"{operator}{[v.shape for v in inputs]} {options}")
