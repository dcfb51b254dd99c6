"""Loops for numba are compiled where it is installed; only SUSTAINED_SPEED takes them."""

from __future__ import annotations

import importlib.util
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.limits import Limits
from gpunn.ops import compiled
from gpunn.ops.compiled import compiler
from gpunn.ops.compiled.vectors import Sizes
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.compiled import test_loops, test_real_products
from tests.ops.compiled.plain import OF_TILES, REALS
from tests.ops.harness import random
from tests.ops.quantized import quantized

# Tests with compiled products, and other loops as plain Python, so as not to compile them
OF_PRODUCTS = """
import sys, pytest
from gpunn.ops import compiled
from tests.ops.compiled.plain import INTEGERS, REALS

found = compiled.maker()
print(*found.of_bytes.sizes, *found.of_tiles.sizes)
integers = INTEGERS._replace(of_bytes=found.of_bytes, look_up=found.integers.look_up)
reals = REALS._replace(of_tiles=found.of_tiles, depthwise=found.depthwise)
compiled.load = lambda: compiled.Loops(reals, integers)
sys.exit(pytest.main(sys.argv[1:]))
"""
CPU = Path("/proc/cpuinfo")
CPU_FLAGS = CPU.read_text().split() if CPU.is_file() else []


@pytest.mark.parametrize("preference", ["fast-single-answer", "low-power", "sustained-speed"])
@pytest.mark.parametrize("limit", [None, 100.0])
def test_only_sustained_speed_asks_for_them(
    preference: str, limit: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Array] = []

    def products(ends: Array, x: Array, *operands: Any) -> None:
        asked.append(x)
        OF_TILES.products(ends, x, *operands)

    plain = compiled.Loops(REALS._replace(of_tiles=compiled.OfReals(products, Sizes(2, 3))), None)
    monkeypatch.setattr("gpunn.compilation.assembly.load_loops", lambda *_: plain)
    model = Model("layer")
    model.limits = Limits(compile_seconds=limit)
    x = model.input("x", float32(1, 3, 3, 2))
    model.output(*model.add("conv2d", [x, model.constant("w", random(1, 4, 1, 1, 2))]))
    model.compile("cpu", preference, threads=1)(random(0, 1, 3, 3, 2))
    assert bool(asked) == (preference == "sustained-speed" and limit is None)
    assert compiled.real_loops() is None


@pytest.fixture
def afresh() -> Iterator[None]:
    """Let loops be loaded anew, and once more for the next test."""
    compiled.load.cache_clear()
    compiled.maker.cache_clear()
    yield
    compiled.load.cache_clear()
    compiled.maker.cache_clear()


@pytest.mark.usefixtures("afresh")
def test_without_numba_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert compiled.load() is None


@pytest.mark.usefixtures("afresh")
def test_a_numba_that_refuses_the_loops_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")

    def refuse(*_: object) -> None:
        raise AttributeError("no such type")

    monkeypatch.setattr("gpunn.ops.compiled.compiler.written", refuse)
    with pytest.warns(RuntimeWarning, match="numba cannot compile loops"):
        assert compiled.load() is None
    assert compiled.load() is None


@pytest.mark.usefixtures("afresh")
def test_a_numba_that_refuses_numpy_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.warns(RuntimeWarning, match="numba cannot be used"):
        assert compiled.load() is None


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize(("version", "serves"), [("0.60.0", False), ("0.61.2", True), ("1.0", True)])
def test_versions_of_numba_that_mix_up_types_are_refused(
    version: str, serves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    numba = pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    monkeypatch.setattr(numba, "__version__", version)
    with nullcontext() if serves else pytest.raises(ImportError, match=r"numba 0\.61 or later is needed"):
        compiled.maker()


@pytest.mark.usefixtures("afresh")
def test_a_loop_that_numba_refuses_when_it_is_called_runs_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    made = compiled.load(integers=False, steps=False)
    assert made is not None and made.reals is not None
    monkeypatch.setattr(compiler.Compiler, "_compiled", lambda *_, **__: 1 / 0)
    x, y = random(0, 300), np.zeros(300, np.float32)
    for _ in range(2):  # a warning comes once
        with pytest.warns(RuntimeWarning, match="leaky: division by zero") if not y.any() else nullcontext():
            made.reals.leaky(np.array([0, 100, 300]), x, np.float32(0.5), y)
        np.testing.assert_array_equal(y, np.where(x < 0, x * np.float32(0.5), x))


def stated(dtype: DType) -> Model:
    """Return a sum of two tensors of a type, with its result as reals behind it."""
    model = Model("sum")
    type = quantized(dtype, (2, 3), 0.1, 0) if dtype is DType.INT8 else TensorType(dtype, (2, 3))
    (y,) = model.add("add", [model.input(name, type) for name in "ab"], quantization=[type.quantization])
    model.output(*(model.add("dequantize", [y]) if dtype is DType.INT8 else (y,)))
    return model


@pytest.mark.parametrize(
    "dtype, kinds",
    [
        (DType.FLOAT32, (True, False, False)),
        (DType.FLOAT16, (True, False, False)),
        (DType.INT8, (False, True, False)),
        (DType.INT32, (False, False, False)),
    ],
)
def test_loops_are_those_of_types_that_runs_compute(
    dtype: DType, kinds: tuple[bool, bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[bool, bool, bool]] = []
    monkeypatch.setattr("gpunn.compilation.assembly.load_loops", lambda *kinds: asked.append(kinds))
    stated(dtype).compile("cpu", "sustained-speed")
    assert asked == [kinds]


@pytest.mark.parametrize(
    ("flag", "name", "features", "sizes"),
    [("avx_vnni", "alderlake", "+avxvnni,+fma", "8 6 8 6"), ("avx2", "haswell", "+avx2,+fma", "8 4 8 6")],
)
def test_shorter_vectors_have_the_same_bits(
    flag: str, name: str, features: str, sizes: str, tmp_path: Path
) -> None:
    pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    if flag not in CPU_FLAGS:
        pytest.skip(f"this CPU has no {flag}")
    own = compiled.maker().of_bytes
    if own is not None and own.sizes == (8, int(sizes.split()[1])):
        pytest.skip("these are the vectors of this CPU, which the other tests compute with")
    environment = {
        "NUMBA_CPU_NAME": name,
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    tests = (
        test_loops.test_stored_integers_have_the_bits_of_numpy,
        test_loops.test_tables_are_looked_up,
        test_real_products.test_sums_of_reals_have_the_same_bits_everywhere,
        test_real_products.test_sums_of_channels_have_the_same_bits_everywhere,
    )
    names = [f"{inspect.getfile(test)}::{test.__name__}" for test in tests]
    done = subprocess.run(
        [sys.executable, "-c", OF_PRODUCTS, "-q", "-p", "no:cacheprovider", "-k", "not plain", *names],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(sizes) and "passed" in done.stdout


def test_the_name_of_machine_code_tells_of_all_its_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def name() -> str:
        return compiler.named(lambda: None, "loop").__qualname__

    before = name()
    assert before == name() != "loop"
    (tmp_path / "vectors.py").write_text("# another one")
    monkeypatch.setattr(compiler, "FOLDER", tmp_path)
    assert name() != before
