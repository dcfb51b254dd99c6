"""Loops for numba have the bits of the references, plain and compiled; only SUSTAINED_SPEED takes them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.limits import Limits
from gpunn.ops import OPS, compiled
from gpunn.ops.compiled import channel_products, dot_products, loops, rows
from gpunn.ops.compiled.vectors import Sizes
from gpunn.ops.fixed_point.tables import read_table
from gpunn.types import Array, DType, float32
from tests.ops.harness import random
from tests.ops.quantized import quantized, stored

PLAIN = compiled.Loops(
    loops.finish,
    loops.requantize,
    loops.floors,
    loops.pair_sums,
    partial(rows.lines, 2),
    rows.look_up,
    loops.depthwise,
    compiled.OfBytes(dot_products.dot_products, channel_products.channel_products, Sizes(2, 3)),
)
CPU = Path("/proc/cpuinfo")
CPU_FLAGS = CPU.read_text().split() if CPU.is_file() else []
Case = tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]  # op, shape, filter, attributes
CASES: list[Case] = [
    ("conv2d", (1, 3, 4, 3), (5, 1, 1, 3), {"activation": "relu6"}),
    ("conv2d", (2, 4, 3, 2), (3, 2, 2, 2), {"padding": "same"}),
    ("conv2d", (1, 2, 3, 2), (3, 1, 1, 2), {"activation": "tanh"}),  # no clamp: numpy computes it
    ("fully_connected", (2, 3, 4), (5, 12), {"activation": "relu6"}),
    ("fully_connected", (1, 7), (3, 7), {}),
    ("fully_connected", (1, 7), (3, 7), {"activation": "tanh"}),
    ("depthwise_conv2d", (2, 5, 9, 3), (1, 3, 3, 3), {"padding": "same", "activation": "relu"}),
    ("depthwise_conv2d", (1, 6, 7, 2), (1, 3, 3, 2), {"padding": "same", "stride": (2, 2)}),
    ("depthwise_conv2d", (1, 6, 9, 2), (1, 2, 5, 2), {"dilation": (2, 2)}),
    ("depthwise_conv2d", (1, 3, 2, 4), (1, 3, 4, 4), {"padding": ((5, 1), (4, 3)), "stride": (2, 1)}),
    ("depthwise_conv2d", (1, 4, 5, 2), (1, 3, 3, 6), {"padding": "same"}),  # several channels of one
    ("depthwise_conv2d", (1, 4, 3, 150), (1, 1, 3, 150), {"padding": "same"}),
]
OF_BYTES: list[Case] = [
    ("conv2d", (2, 3, 5, 4), (37, 1, 1, 4), {}),
    ("conv2d", (1, 5, 7, 8), (16, 1, 1, 8), {"stride": (2, 2), "activation": "relu"}),
    ("conv2d", (3, 6, 5, 3), (70, 3, 3, 3), {"padding": "same"}),
    ("conv2d", (1, 7, 9, 5), (9, 2, 3, 5), {"padding": "same", "dilation": (2, 2)}),
    ("conv2d", (1, 7, 9, 4), (9, 3, 2, 4), {"padding": ((3, 2), (1, 4)), "stride": (2, 3)}),
    ("conv2d", (1, 4, 4, 1), (6, 3, 3, 1), {"padding": "same"}),
    ("conv2d", (1, 40, 30, 2), (300, 3, 3, 2), {"padding": "same"}),  # several blocks
    ("fully_connected", (31, 13), (5, 13), {"activation": "relu6"}),
    ("fully_connected", (1, 1, 300), (1, 300), {}),
    ("depthwise_conv2d", (1, 5, 5, 1), (1, 3, 3, 9), {"activation": "relu"}),  # many filters of one channel
    ("depthwise_conv2d", (2, 4, 6, 24), (1, 3, 3, 24), {"padding": "same"}),
    ("depthwise_conv2d", (1, 6, 7, 100), (1, 3, 3, 100), {"stride": (2, 2), "activation": "relu6"}),
    ("depthwise_conv2d", (1, 1, 1, 1), (1, 3, 3, 1), {"padding": "same", "activation": "relu"}),
    (
        "depthwise_conv2d",
        (1, 9, 8, 7),
        (1, 5, 2, 7),
        {"dilation": (2, 3), "padding": ((1, 3), (2, 4)), "activation": "relu"},
    ),
]
NOT_OF_BYTES: list[Case] = [
    ("conv2d", (0, 5, 4, 2), (6, 3, 3, 2), {}),
    ("conv2d", (0, 5, 4, 2), (6, 1, 1, 2), {}),
    ("depthwise_conv2d", (0, 5, 4, 8), (1, 3, 3, 8), {}),
    ("conv2d", (1, 5, 4, 4), (6, 3, 3, 2), {}),  # two groups
    ("depthwise_conv2d", (1, 4, 5, 9), (1, 3, 3, 9), {}),  # halves below zero go away from it
]
ZEROS = {DType.UINT8: (120, 0, 255), DType.INT8: (0,)}  # of filters, whose weights may leave 8 bits with them


@pytest.fixture(params=["plain", "compiled"])
def found(request: pytest.FixtureRequest) -> Iterator[compiled.Loops]:
    """The loops in use: plain Python, and machine code where numba is installed."""
    if request.param == "compiled":
        pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    made = PLAIN if request.param == "plain" else compiled.load()
    assert made is not None
    with compiled.in_use(made):
        yield made


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reals_have_the_bits_of_the_reference(case: Case, found: compiled.Loops) -> None:
    op, shape, filter, attrs = case
    weights, bias = random(1, *filter), random(2, filter[3] if op == "depthwise_conv2d" else filter[0])
    model = Model(op)
    x = model.input("x", float32(*shape))
    model.output(*model.add(op, [x, model.constant("w", weights), model.constant("b", bias)], attrs))
    value = random(3, *shape)
    value.flags.writeable = False  # an input of a user
    (got,) = model.operations[0].prepared()([value, weights, bias])
    plain = {k: v for k, v in attrs.items() if k != "activation"}
    expected = OPS[op].reference(value, weights, bias, **plain)
    if "activation" in attrs:
        expected = OPS[attrs["activation"]].reference(expected)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype, zero", [(dtype, zero) for dtype, zeros in ZEROS.items() for zero in zeros])
@pytest.mark.parametrize("case", [*CASES, *OF_BYTES, *NOT_OF_BYTES], ids=str)
def test_stored_integers_have_the_bits_of_numpy(
    case: Case, dtype: DType, zero: int, found: compiled.Loops
) -> None:
    run, values = layer(case, dtype, zero)
    (got,) = run(values)
    with compiled.in_use(None):
        run, _ = layer(case, dtype, zero)
        (expected,) = run(values)
    np.testing.assert_array_equal(got, expected)


def layer(case: Case, dtype: DType, zero: int) -> tuple[Any, list[Array]]:
    """Return a quantised layer for many runs, and what it takes. zero: of the filter."""
    op, shape, filter, stated = case
    attrs = {k: v for k, v in stated.items() if v != "tanh"}
    x, w = quantized(dtype, shape, 0.02, 5), quantized(dtype, filter, 0.01, zero)
    channels = filter[3] if op == "depthwise_conv2d" else filter[0]
    bias = np.random.default_rng(2).integers(-3000, 3000, channels).astype(np.int32)
    values, weights = stored(3, x), stored(4, w)
    model = Model(op)
    constants = [model.constant("w", weights, w), model.constant("b", bias)]
    wanted = quantized(dtype, (), 0.03, -1 if dtype is DType.INT8 else 30).quantization
    (y,) = model.add(op, [model.input("x", x), *constants], attrs, quantization=[wanted])
    model.output(y)
    return model.operations[0].prepared(), [values, weights, bias]


@pytest.mark.parametrize("case", [*OF_BYTES, *NOT_OF_BYTES], ids=str)
def test_bytes_are_read_where_they_lie(case: Case) -> None:
    asked: list[Array] = []

    def counted(loop: Any) -> Any:
        return lambda x, *operands: (asked.append(x), loop(x, *operands))

    assert PLAIN.of_bytes is not None
    dots, channels, sizes = PLAIN.of_bytes
    with compiled.in_use(PLAIN._replace(of_bytes=compiled.OfBytes(counted(dots), counted(channels), sizes))):
        run, values = layer(case, DType.INT8, 0)
        run(values)
    assert bool(asked) == (case not in NOT_OF_BYTES)
    assert all(x.dtype == np.uint8 for x in asked)


@pytest.mark.parametrize("preference", ["fast-single-answer", "low-power", "sustained-speed"])
@pytest.mark.parametrize("limit", [None, 100.0])
def test_only_sustained_speed_asks_for_them(
    preference: str, limit: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Array] = []

    def finish(*operands: Any) -> None:
        asked.append(operands[0])
        loops.finish(*operands)

    plain = PLAIN._replace(finish=finish)
    monkeypatch.setattr("gpunn.compilation.assembly.load_loops", lambda: plain)
    model = Model("layer")
    model.limits = Limits(compile_seconds=limit)
    x = model.input("x", float32(1, 3, 3, 2))
    model.output(*model.add("conv2d", [x, model.constant("w", random(1, 4, 1, 1, 2))]))
    model.compile("cpu", preference)(random(0, 1, 3, 3, 2))
    assert bool(asked) == (preference == "sustained-speed" and limit is None)
    assert compiled.current() is None


def test_without_numba_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.load.cache_clear()
    with monkeypatch.context() as changed:
        changed.setattr(importlib.util, "find_spec", lambda _: None)
        assert compiled.load() is None
    compiled.load.cache_clear()


def test_a_numba_that_refuses_the_loops_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")

    def refuse(*_: object) -> None:
        raise AttributeError("no such type")

    compiled.load.cache_clear()
    with monkeypatch.context() as changed:
        changed.setattr("gpunn.ops.compiled.teach_numba", refuse)
        with pytest.warns(RuntimeWarning, match="numba cannot compile loops"):
            assert compiled.load() is None
    compiled.load.cache_clear()


def test_a_numba_that_refuses_numpy_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.load.cache_clear()
    with monkeypatch.context() as changed:
        changed.setattr(importlib.util, "find_spec", lambda _: object())
        changed.setitem(sys.modules, "numba", None)
        with pytest.warns(RuntimeWarning, match="numba cannot be used"):
            assert compiled.load() is None
    compiled.load.cache_clear()


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize("shape", [(), (0, 3), (63,), (5, 64), (3, 7, 11)])
def test_tables_are_looked_up(shape: tuple[int, ...], dtype: DType, found: compiled.Loops) -> None:
    x, table = stored(0, quantized(dtype, shape, 1.0)), stored(1, quantized(dtype, (256,), 1.0))
    for own in (x, x.T):
        got = read_table(own, table)
        np.testing.assert_array_equal(got, table[own.view(np.uint8)])
        assert got.dtype == table.dtype and got.shape == own.shape


@pytest.mark.skipif("avx_vnni" not in CPU_FLAGS, reason="this CPU has no AVX-VNNI")
def test_shorter_vectors_have_the_same_bits(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    environment = {
        "NUMBA_CPU_NAME": "alderlake",
        "NUMBA_CPU_FEATURES": "+avxvnni",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    code = "from gpunn.ops.compiled import load; print(*load().of_bytes.sizes)"
    test = f"{__file__}::{test_stored_integers_have_the_bits_of_numpy.__name__}"
    of_pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "compiled", test]
    for arguments, expected in ((["-c", code], "8 6"), (of_pytest, "passed")):
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert expected in done.stdout


def test_the_name_of_machine_code_tells_of_all_its_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    function = dot_products.dot_products
    before = compiled.named(function)
    assert before.__qualname__ == compiled.named(function).__qualname__ != function.__qualname__
    (tmp_path / "vectors.py").write_text("# another one")
    monkeypatch.setattr(compiled.vectors, "__file__", str(tmp_path / "vectors.py"))
    assert compiled.named(function).__qualname__ != before.__qualname__
