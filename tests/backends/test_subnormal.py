"""A run takes subnormal numbers for 0, and leaves the thread as it was."""

from __future__ import annotations

import platform
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gpunn.backends.subnormal import flushing
from gpunn.custom import op
from gpunn.model import Model
from gpunn.types import Array, float32

SMALL = np.full(3, 2.0**-130, np.float32)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="only Linux on x86-64 has it"
)


def halved(x: Array) -> Array:
    return x * np.float32(0.5)


def test_results_and_operands_are_flushed_inside() -> None:
    with np.errstate(all="ignore"):
        assert halved(SMALL).all()
        with flushing():
            assert not halved(SMALL).any()
            assert not (np.float32(2.0**-126) * np.full(3, 0.5, np.float32)).any()
            assert not (SMALL * np.float32(2.0**20)).any()
        assert halved(SMALL).all()


def test_an_error_inside_leaves_the_thread_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), flushing():
        raise ZeroDivisionError
    assert halved(SMALL).all()


def test_contexts_of_threads_do_not_meet() -> None:
    def work(_: int) -> bool:
        with flushing():
            inside = halved(SMALL).any()
        return bool(not inside and halved(SMALL).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(200)))


def test_runs_flush() -> None:
    model = Model()
    half = model.constant("half", np.full(3, 0.5, np.float32))
    model.output(*model.add("mul", [model.input("x", float32(3)), half]))
    with model.compile("cpu") as compiled:
        assert not compiled(SMALL).any()
        assert compiled(np.full(3, 2.0**-125, np.float32)).all()
    assert halved(SMALL).all()


def test_a_run_that_fails_leaves_the_thread_as_it_was() -> None:
    @op(lambda call: call.x)
    def failing(x: Array) -> Array:
        raise ValueError("it fails")

    model = Model()
    model.output(*model.add(failing, [model.input("x", float32(3))]))
    with model.compile("cpu") as compiled, ThreadPoolExecutor(1) as pool:
        with pytest.raises(ValueError, match="it fails"):
            pool.submit(compiled, SMALL).result()
        assert pool.submit(halved, SMALL).result().all()
