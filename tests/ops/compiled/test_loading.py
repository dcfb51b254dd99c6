"""Loops for numba are compiled where it is installed; only SUSTAINED_SPEED takes them."""

from __future__ import annotations

import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpunn import Model
from gpunn.backends.blas import LEAST_FLOPS, library
from gpunn.limits import Limits
from gpunn.ops import compiled
from gpunn.ops.compiled import dot_products, real_products
from gpunn.ops.compiled.vectors import Sizes
from gpunn.types import Array, float32
from tests.ops.compiled import test_loops, test_real_products
from tests.ops.compiled.plain import PLAIN
from tests.ops.harness import random

CPU = Path("/proc/cpuinfo")
CPU_FLAGS = CPU.read_text().split() if CPU.is_file() else []


@pytest.mark.parametrize("preference", ["fast-single-answer", "low-power", "sustained-speed"])
@pytest.mark.parametrize("limit", [None, 100.0])
def test_only_sustained_speed_asks_for_them(
    preference: str, limit: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Array] = []

    def products(x: Array, *operands: Any) -> None:
        asked.append(x)
        real_products.real_products(x, *operands)

    plain = PLAIN._replace(of_reals=compiled.OfReals(products, Sizes(2, 3)))
    monkeypatch.setattr("gpunn.compilation.assembly.load_loops", lambda: plain)
    model = Model("layer")
    model.limits = Limits(compile_seconds=limit)
    x = model.input("x", float32(1, 3, 3, 2))
    model.output(*model.add("conv2d", [x, model.constant("w", random(1, 4, 1, 1, 2))]))
    model.compile("cpu", preference, threads=1)(random(0, 1, 3, 3, 2))
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


@pytest.mark.skipif("avx_vnni" not in CPU_FLAGS, reason="this CPU has no AVX-VNNI")
def test_shorter_vectors_have_the_same_bits(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    environment = {
        "NUMBA_CPU_NAME": "alderlake",
        "NUMBA_CPU_FEATURES": "+avxvnni,+fma",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    code = "from gpunn.ops.compiled import load; print(*load().of_bytes.sizes, *load().of_reals.sizes)"
    tests = (
        test_loops.test_stored_integers_have_the_bits_of_numpy,
        test_real_products.test_sums_of_reals_have_the_same_bits_everywhere,
    )
    names = [f"{inspect.getfile(test)}::{test.__name__}" for test in tests]
    of_pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "compiled", *names]
    for arguments, expected in ((["-c", code], "8 6 8 6"), (of_pytest, "passed")):
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
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    assert compiled.named(function).__qualname__ != before.__qualname__


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pays", [False, True])
def test_products_that_threads_compute_sooner_stay_with_numpy(
    threads: int, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library() is None:
        pytest.skip("numpy's BLAS library takes no number of threads")
    asked: list[Array] = []
    own = compiled.OfReals(lambda x, *_: asked.append(x), Sizes(2, 3))
    monkeypatch.setattr("gpunn.compilation.assembly.load_loops", lambda: PLAIN._replace(of_reals=own))
    monkeypatch.setattr("gpunn.ops.contraction.prepared.threads_pay", lambda *_: pays)
    model = Model("layers")
    pixels = LEAST_FLOPS // (2 * 64 * 64)
    x = model.input("x", float32(1, 1, pixels, 64))
    large = model.add("conv2d", [x, model.constant("large", random(1, 64, 1, 1, 64))])
    model.output(*model.add("conv2d", [*large, model.constant("small", random(2, 8, 1, 1, 64))]))
    model.compile("cpu", "sustained-speed", threads=threads)(random(0, 1, 1, pixels, 64))
    assert len(asked) == (1 if threads == 2 and pays else 2)
