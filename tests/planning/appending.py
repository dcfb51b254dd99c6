"""Models whose operations are appended to others, and what both ways of planning them give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.backends.adapter import SOFTWARE
from gpunn.backends.webgpu.device import open_device
from gpunn.compilation import on_gpu
from gpunn.compilation.base import Compilation
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import Array, DType, Shape, TensorType, float32
from tests.ops.harness import limit_device, random


def whole(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    """Small whole numbers: float32 computes sums and products of them exactly, in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def constant(model: Model, *shape: int, dtype: Any = np.float32, seed: int = 1) -> Operand:
    return model.constant("c", whole(*shape, dtype=dtype, seed=seed))


def add(model: Model, op: str, *inputs: Operand, **attrs: Any) -> Operand:
    return model.add(op, inputs, attrs)[0]


def swapped_off(patch: pytest.MonkeyPatch) -> None:
    """Let every operation have dispatches of its own."""
    patch.setattr(on_gpu, "append", lambda model, placements, joined, *_: (placements, dict(joined), {}))
    patch.setattr(on_gpu, "prepend", lambda model, placements, joined, *_: (placements, dict(joined), {}))


def as_on_a_gpu(patch: pytest.MonkeyPatch) -> None:
    """Append what is appended on devices that are no software."""
    planned_for(patch, "append", software=False)
    planned_for(patch, "prepend", software=False, parallel_invocations=1 << 12)
    original = on_gpu.switched
    patch.setattr(on_gpu, "switched", lambda *given: original(*given[:-1], False))


def planned_for(patch: pytest.MonkeyPatch, step: str, **device: Any) -> None:
    """Let "append" or "prepend" plan for a device with other properties than that of the kernels."""
    original = getattr(on_gpu, step)
    patch.setattr(on_gpu, step, lambda *given: original(*given[:-1], replace(given[-1], **device)))


def dispatches(compiled: Compilation) -> list[str]:
    """Return the operations of each dispatch, with + between them."""
    rows = compiled.plan_rows()
    return ["+".join(o.op for o in (*r.prepended, r.operation, *r.appended)) for r in rows]


def ran(model: Model, inputs: Sequence[Array], **how: Any) -> tuple[list[Array], list[str]]:
    with model.compile("webgpu", **how) as compiled:
        found = compiled(*inputs)
        return list(found) if isinstance(found, tuple) else [found], dispatches(compiled)


def is_software() -> bool:
    """Tell whether the adapter computes on the processor, for whatever device kernels are made."""
    return open_device(None, False).info.kind == SOFTWARE


def agree(
    model: Model, inputs: Sequence[Array], patch: pytest.MonkeyPatch, exact: bool = True, **how: Any
) -> list[str]:
    """Compare the bits with those of separate dispatches, and with the CPU's; return the dispatches.

    The driver of a GPU contracts a product and a sum in one kernel and not in another. If a result is not
    `exact`, that is a rounding, which eight layers of normalisation may multiply by up to 2^12.
    """
    found, names = ran(model, inputs, **how)
    with patch.context() as apart:
        swapped_off(apart)
        expected, others = ran(model, inputs, **how)
    assert len(others) == len("+".join(names).split("+"))
    with model.compile("cpu") as cpu:
        results = cpu(*inputs)
    reference = results if isinstance(results, tuple) else (results,)
    for y, z, r in zip(found, expected, reference, strict=True):
        if exact or is_software():
            np.testing.assert_array_equal(y, z, strict=True)
        else:
            np.testing.assert_allclose(y, z, rtol=2**-12, atol=2**-24, strict=True)
        if exact:
            np.testing.assert_array_equal(y, r, strict=True)
    return names


def as_built(
    build: Callable[[Model, Operand], list[str]], shape: Shape, patch: pytest.MonkeyPatch, exact: bool = True
) -> None:
    """Check that a model of what is built on an input has the dispatches that `build` returns.

    exact: its results are whole numbers, unless there is a softmax.
    """
    model = Model("built")
    expected = build(model, model.input("x", float32(*shape)))
    inputs = [whole(*each.type.shape, seed=k) for k, each in enumerate(model.inputs)]
    exact = exact and not any("softmax" in name for name in expected)
    assert agree(model, inputs, patch, exact) == expected


def in_bundles(patch: pytest.MonkeyPatch) -> None:
    """Let one workgroup run several kernels as one dispatch, as on a GPU with small layers."""
    limit_device(patch, software=False, subgroup_sizes=None)
    patch.setattr("gpunn.backends.webgpu.bundles.MAX_WORK", 1 << 20)


def bundled(
    layer: Callable[[Model, Operand], Operand], count: int, shape: Shape, patch: pytest.MonkeyPatch
) -> list[str]:
    """Return the dispatches of so many layers behind a pool, which one workgroup runs as one, as on a GPU."""
    in_bundles(patch)
    model = Model("bundle")
    y = pooled(model, model.input("x", float32(*shape)), shape[-1])
    for _ in range(count):
        y = layer(model, y)
    model.output(y)
    names = agree(model, [random(0, *shape)], patch, exact=False)
    with model.compile("webgpu") as compiled:
        assert {row.bundle for row in compiled.plan_rows()} == {0}
    return names


def conv(model: Model, x: Operand, channels: int) -> Operand:
    filter, bias = constant(model, channels, 3, 3, x.type.shape[3]), constant(model, channels)
    return add(model, "conv2d", x, filter, bias, padding="same")


def pointwise(model: Model, x: Operand, channels: int, bias: bool = True) -> Operand:
    inputs = [x, constant(model, channels, 1, 1, x.type.shape[3], seed=3)]
    return add(model, "conv2d", *inputs, *([constant(model, channels, seed=4)] if bias else []))


def depthwise(model: Model, x: Operand, channels: int) -> Operand:
    return add(model, "depthwise_conv2d", x, constant(model, 1, 3, 3, channels), padding="same")


def pooled(model: Model, x: Operand, channels: int) -> Operand:
    return add(model, "max_pool2d", x, size=(3, 3), stride=(1, 1), padding="same")


def shared(model: Model, x: Operand) -> Operand:
    """A tensor that is an output, too, so that nothing is appended to it."""
    y = pooled(model, x, x.type.shape[3])
    model.output(y)
    return y


def product(model: Model, x: Operand, channels: int) -> Operand:
    return add(model, "fully_connected", x, constant(model, channels, channels))


def batch(model: Model, x: Operand, channels: int) -> Operand:
    return add(model, "batch_matmul", x, constant(model, channels, channels))


def moved(model: Model, x: Operand, channels: int) -> Operand:
    return add(model, "transpose", x, perm=(0, 2, 1, 3))


def looked_up(model: Model, *shape: int) -> Operand:
    """A tensor that the host looks up: two rows by the keys of another input, which are below 4."""
    lookups = model.input("n", TensorType(DType.INT32, (2,)))
    keys = model.constant("keys", np.arange(4, dtype=np.int32))
    found, _ = model.add("hashtable_lookup", [lookups, keys, constant(model, 4, math.prod(shape) // 2)])
    return add(model, "reshape", found, shape=shape)
