"""Products take subnormal numbers for 0, what tells them apart does not, and threads stay as they were."""

from __future__ import annotations

import platform
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gpunn.backends.subnormal import flushing
from gpunn.custom import op
from gpunn.graph.operation import Operand
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


def product(model: Model, x: Operand) -> Operand:
    return model.add("fully_connected", [x, model.constant("half", np.eye(3, dtype=np.float32) / 2)])[0]


def test_products_flush_and_an_order_does_not() -> None:
    """The products stand around an operation that tells subnormal numbers apart."""
    model = Model()
    x = model.input("x", float32(1, 3))
    y = product(model, x)
    order = model.add("arg_max", [x], {"axis": 1})[0]
    model.output(y, order, product(model, model.add("abs", [x])[0]))
    values = SMALL[None] * np.array([1, 2, 4], np.float32)
    with model.compile("cpu") as compiled:
        for traced in (False, True):
            first, place, second = compiled.trace(values).outputs if traced else compiled(values)
            assert not first.any() and not second.any()
            assert place.tolist() == [2]
        assert compiled(np.full((1, 3), 2.0**-125, np.float32))[0].all()
    assert halved(SMALL).all()


def test_a_run_that_fails_leaves_the_thread_as_it_was() -> None:
    @op(lambda call: call.x)
    def failing(x: Array) -> Array:
        raise ValueError("it fails")

    model = Model()
    y = product(model, model.input("x", float32(1, 3)))
    model.output(*model.add(failing, [y]))
    with model.compile("cpu") as compiled, ThreadPoolExecutor(1) as pool:
        with pytest.raises(ValueError, match="it fails"):
            pool.submit(compiled, SMALL[None]).result()
        assert pool.submit(halved, SMALL).result().all()
