"""Loops of more iterations than lavapipe allows: there, such operations run on the host."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn.ops
from gpunn.backends.webgpu.properties import LAVAPIPE_LOOP_ITERATIONS
from gpunn.backends.webgpu.shader import read_body, with_dependencies
from gpunn.backends.webgpu.wgsl import used_libraries, without_comments
from gpunn.types import Array
from tests.ops.harness import check, model_of, over_loop_limit


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


LIMIT = LAVAPIPE_LOOP_ITERATIONS


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT + 1, 70_001])
def test_long_sums(length: int, gpu: str) -> None:
    """Sums of ones: float32 counts to 2^24, so a missing term shows."""
    cases: list[tuple[str, list[Array], dict[str, Any]]] = [
        ("fully_connected", [ones(1, length), ones(2, length)], {}),
        ("batch_matmul", [ones(1, 2, length), ones(1, length, 2)], {}),
        ("cumsum", [ones(length, 1)], {"axis": 0}),
    ]
    for op, inputs, attrs in cases:
        (found,) = check(op, inputs, attrs, backend=gpu, atol=0)
        assert found.max() == length


def test_large_windows(gpu: str) -> None:
    """The iterations of nested loops count together."""
    image, size = np.arange(256 * 260, dtype=np.float32).reshape(1, 256, 260, 1), (256, 260)
    attrs: dict[str, Any] = {"padding": "valid", "stride": (1, 1)}
    (top,) = check("max_pool2d", [image], {"size": size, **attrs}, backend=gpu)
    assert top.tolist() == [[[[256 * 260 - 1]]]]
    (total,) = check("depthwise_conv2d", [ones(*image.shape), ones(*image.shape)], attrs, backend=gpu)
    assert (total == 256 * 260).all()
    inputs = [ones(1, 20, 20, 200), ones(2, 20, 20, 200)]
    (total,) = check("conv2d", inputs, attrs, backend=gpu)
    assert (total == 80_000).all()


# Op, rows of a window that just go round (see gpunn.kernel.Loop), its other dimensions, what is around these.
WINDOWS = (
    ("depthwise_conv2d", 16_249, (2, 1), (1,), ()),  # 4 for each row, and 2
    ("conv2d", 4_999, (2, 3), (1,), ()),  # 13, and 3
    ("conv2d", 5_908, (2, 8), (1,), ()),  # 11, and 3: four channels at a time
    ("conv3d", 5_416, (2, 1, 1), (), (1,)),  # 12, and 3
)


@pytest.mark.parametrize(("op", "rows", "others", "before", "after"), WINDOWS)
def test_ends_of_loops(
    op: str, rows: int, others: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...], gpu: str
) -> None:
    """The largest allowed nested loops are complete; one row more takes another dispatch."""
    for more in (0, 1):
        size = (rows + more, *others)
        inputs = [ones(1, *size), ones(*before, *size, *after)]
        (total,) = check(op, inputs, backend=gpu, constants=(1,), atol=0, rtol=0)
        assert total.item() == np.prod(size)
        with model_of(op, inputs, {}, (1,)).compile(gpu) as compiled:
            assert (len(compiled.plan_rows()) > 1) == (more == 1 and bool(over_loop_limit(gpu)))


@pytest.mark.parametrize("reverse", [False, True])
def test_long_sequences(reverse: bool, gpu: str) -> None:
    """A sequence of more steps than an invocation may take is several dispatches, with exact results."""
    x = np.random.default_rng(0).integers(-1, 2, (2, 16_001, 5)).astype(np.float32)
    operands = [x, np.roll(np.eye(5, dtype=np.float32), 1, axis=0), ones(2, 5)]
    check("recurrence", operands, {"reverse": reverse}, backend=gpu, constants=(1,), atol=0, rtol=0)


# Bodies with short loops, whatever the call: they count dimensions, or up to eight look-ups.
SHORT = {
    "find_rows",
    "gather_nd",
    "put_slice",
    "table",
    "take_slice",
}
DIVIDED = {
    "conv2d_filter_gradient",
    "conv2d_filter_subgroup",
    "depthwise_filter_gradient",
}  # filter_gradient.py counts their parts
CHAINED = {  # gpunn/ops/kernels/chain.py counts their parts, as it does for sums with lib/chain.wgsl
    "arg_max_pool2d",
    "embedding_sums",
    "local_response",
    "max_unpool2d",
    "reverse_axes",
    "rnn",
    "rotated_crop_matrix",
    "spread_pool2d",
}


def has_loop(body: str) -> bool:
    """Tell whether a body, or a library that it uses, has a loop."""
    libraries = with_dependencies(used_libraries(read_body(body)))
    texts = (read_body(body), *(read_body(f"lib/{name}") for name in libraries))
    return any(re.search(r"\b(for|while) \(", without_comments(text)) for text in texts)


def test_loops_are_counted() -> None:
    """Every kernel whose loops depend on a call states loop_iterations; chained() does so for long sums."""
    silent = set()
    for path in Path(gpunn.ops.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Kernel":
                named = {k.arg: k.value for k in call.keywords}
                values = (n.value for n in ast.walk(named["body"]) if isinstance(n, ast.Constant))
                texts = [value for value in values if isinstance(value, str)]
                bodies = {text for text in texts if has_loop(text)}
                chained = any(getattr(n, "value", "") in ("chain", "pool_alone") for n in ast.walk(call))
                silent |= bodies if "loop_iterations" not in named and not chained else set()
    assert silent == SHORT | DIVIDED | CHAINED
