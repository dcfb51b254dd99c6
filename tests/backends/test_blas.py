"""The number of threads of numpy's BLAS library while models run."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpunn.backends import blas
from gpunn.backends.blas import HostProducts, Library, Limits, choose_threads, library
from gpunn.errors import DeviceError, ModelError
from gpunn.model import Model
from gpunn.ops import compiled
from gpunn.ops.compiled import sharing
from gpunn.types import Array, DType, Quantization, float32
from tests.ops.compiled.plain import OF_TILES, REALS
from tests.ops.harness import random
from tests.ops.quantized import quantized, stored

EPS = 2.0**-24
SMALL, LARGE = 64, 1024  # a product of rows of 256 with so many columns takes 8 rows: 0.26, 4.2 million


class Fake:
    """A library that notes the numbers it gets."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.counts: list[int] = []

    def set(self, count: int) -> None:
        self.count = count
        self.counts.append(count)

    def get(self) -> int:
        return self.count


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A library of 8 threads instead of numpy's."""
    made = Fake(8)
    of_library = Library(made.set, made.get)
    of_limits = Limits(of_library)
    monkeypatch.setattr(blas, "library", lambda: of_library)
    monkeypatch.setattr(blas, "limits", lambda: of_limits)
    return made


def products(*columns: int) -> Model:
    """A product with 8 rows for each number of columns, one after the other."""
    model = Model("products")
    x = model.input("x", float32(8, 256))
    found = []
    for k, count in enumerate(columns):
        weights = model.constant(f"w{k}", random(k, count, 256))
        found.append(model.add("fully_connected", [x, weights])[0])
    model.output(*found)
    return model


X = random(9, 8, 256)


def test_small_products_run_on_one_thread(fake: Fake) -> None:
    with products(SMALL, LARGE, SMALL, SMALL, LARGE).compile("cpu", threads=3) as compiled:
        compiled(X)
        assert fake.counts == [1, 3, 1, 3, 8]
        fake.counts.clear()
        compiled.submit(X).result()
        assert fake.counts == [1, 3, 1, 3, 8]
    assert 2 * 8 * 256 * SMALL < blas.LEAST_FLOPS <= 2 * 8 * 256 * LARGE


def test_a_number_that_numpy_has_is_not_set(fake: Fake) -> None:
    with products(LARGE, LARGE).compile("cpu", threads=8) as compiled:
        compiled(X)
        compiled(X)
        assert set(fake.counts) <= {8}
        fake.count = 5  # by the user
        compiled(X)
    assert fake.counts[-2:] == [8, 5]


def test_a_model_without_products_leaves_the_library_alone(fake: Fake) -> None:
    model = Model("sum")
    x = model.input("x", float32(8, 256))
    model.output(*model.add("add", [x, x]))
    with model.compile("cpu", threads=2) as compiled:
        compiled(X)
    assert fake.counts == []


@pytest.mark.parametrize(
    ("channels", "of_tiles", "count"), [(LARGE, None, 1), (LARGE, OF_TILES, 3), (SMALL, None, 3)]
)
def test_threads_share_loops_or_products(
    fake: Fake,
    channels: int,
    of_tiles: compiled.OfReals | None,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[int] = []

    def leaky(*operands: Any) -> None:
        found.append(sharing.threads())
        REALS.leaky(*operands)

    loops = compiled.Loops(REALS._replace(of_tiles=of_tiles, leaky=leaky), None)
    monkeypatch.setattr("gpunn.compilation.assembly.load_loops", lambda *_: loops)
    monkeypatch.setattr("gpunn.backends.cpu.team_of", lambda threads: SimpleNamespace(threads=threads))
    model = products(channels)
    model.output(*model.add("leaky_relu", model.outputs, {"alpha": 0.5}))
    with model.compile("cpu", "sustained-speed", threads=3) as made:
        made(X)
    assert found == [count]
    assert set(fake.counts) <= {3 if count == 1 else 1, 8}


def test_numpy_gets_its_number_back_after_an_error(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    with products(SMALL).compile("cpu", threads=2) as compiled:
        monkeypatch.setattr("gpunn.backends.cpu.run_steps", _fail)
        with pytest.raises(DeviceError, match="out of memory"):
            compiled(X)
    assert fake.count == 8


def _fail(*arguments: Any) -> None:
    raise DeviceError("out of memory")


def test_the_last_of_several_runs_gives_numpy_its_number_back(fake: Fake) -> None:
    (operation,) = (o for o in products(SMALL).operations if o.op == "fully_connected")
    first, second = (HostProducts([operation], count) for count in (2, 3))
    with first.of_run():
        first.use(first.threads(operation))
        with second.of_run():
            assert fake.count == 1
        assert fake.count == 1
    assert fake.count == 8


def test_a_run_that_is_forgotten_gives_numpy_its_number_back_before_the_next_one(fake: Fake) -> None:
    (operation,) = (o for o in products(SMALL).operations if o.op == "fully_connected")
    found = HostProducts([operation], 2)
    interrupted = found.of_run()
    interrupted.__enter__()
    found.use(1)
    del interrupted
    with found.of_run():
        assert fake.count == 8
    assert fake.count == 8


def test_runs_in_several_threads(fake: Fake) -> None:
    model = products(SMALL, LARGE)
    with model.compile("cpu", threads=1) as one, model.compile("cpu", threads=4) as four:
        pool = ThreadPoolExecutor(4)
        runs = [pool.submit(compiled, X) for compiled in (one, four) * 20]
        answers = [run.result() for run in runs]
        pool.shutdown()
    assert fake.count == 8
    assert set(fake.counts) <= {1, 4, 8}
    for answer in answers:
        for y, first in zip(answer, answers[0], strict=True):
            np.testing.assert_allclose(y, first, rtol=1e-4, atol=1e-4)


def test_what_the_host_computes_for_the_gpu_has_its_number(fake: Fake, gpu: str) -> None:
    """An lstm has no kernel."""
    model, units = Model("host"), 128
    x = model.input("x", float32(8, 256))
    shapes = [(units, 256)] * 4 + [(units, units)] * 4
    weights = [model.constant(f"w{k}", random(k, *shape) / 16) for k, shape in enumerate(shapes)]
    state = [model.constant(f"s{k}", np.zeros((8, units), np.float32)) for k in range(2)]
    biases = [model.constant(f"b{k}", np.zeros(units, np.float32)) for k in range(4)]
    operands = [x, *weights, None, None, None, *biases, None, None, *state]
    results = model.add("lstm", operands, {"activation": "tanh"})
    model.output(results[3])
    with model.compile(gpu, threads=3) as compiled:
        assert "cpu" in {p.backend for p in compiled.placement}
        compiled(X)
    assert fake.counts in ([1, 8], [3, 8])


@pytest.mark.parametrize(("free", "own", "expected"), [(1, 8, 1), (5, 8, 5), (16, 8, 8), (4, 0, 1)])
def test_the_default_number(
    free: int, own: int, expected: int, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is that of free processors, and at most what numpy has; a number that the user states holds."""
    fake.count = own
    monkeypatch.setattr(blas, "free_processors", lambda: free)
    for name in blas.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert choose_threads(None) == expected
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "8")
    assert choose_threads(None) == max(1, own)


@pytest.mark.parametrize("threads", [0, -1, True, 1.0, "2"])
def test_wrong_numbers(threads: Any, backend: str) -> None:
    with pytest.raises(ModelError, match="threads must be an integer of 1 or more, got"):
        products(SMALL).compile(backend, threads=threads)


def test_numbers_of_numpy(backend: str) -> None:
    with products(SMALL).compile(backend, threads=np.int64(1), device_memory_limit=np.int64(1 << 30)):  # type: ignore[arg-type]
        pass


def test_a_library_that_takes_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "library", lambda: None)
    monkeypatch.setattr(blas, "limits", lambda: None)
    with pytest.raises(DeviceError, match="numpy's BLAS library takes no number of threads"):
        products(SMALL).compile("cpu", threads=2)
    with products(SMALL, LARGE).compile("cpu") as compiled:
        assert compiled(X)[1].shape == (8, LARGE)
    monkeypatch.setattr("gpunn.compilation.compiler.installed", lambda: True)
    products(SMALL).compile("cpu", "sustained-speed", threads=2)  # threads may share loops
    monkeypatch.setattr("gpunn.compilation.compiler.installed", lambda: False)
    with pytest.raises(DeviceError, match="takes no number of threads"):
        products(SMALL).compile("cpu", "sustained-speed", threads=2)


def test_the_number_goes_with_the_recipe(fake: Fake) -> None:
    with products(LARGE).compile("cpu", threads=3) as compiled, copy.deepcopy(compiled) as other:
        other(X)
    assert fake.counts == [3, 8]


@pytest.fixture
def real() -> Iterator[Library]:
    """The library of numpy, which has its own number afterwards."""
    found = library()
    if found is None:
        pytest.skip("numpy's BLAS library takes no number of threads")
    before = found.get()
    yield found
    assert found.get() == before


def test_the_library_of_numpy_takes_a_number(real: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = real.get(), []
    monkeypatch.setattr("gpunn.backends.cpu.run_steps", lambda *_: seen.append(real.get()) or _fail())
    for wanted in (2, 1):
        with products(LARGE).compile("cpu", threads=wanted) as compiled, pytest.raises(DeviceError):
            compiled(X)
    assert seen == [2, 1]
    assert real.get() == before


def sums(x: Array, w: Array) -> tuple[Array, Array]:
    """Rows of a product in float64, and how far sums of float32 in any order may be from them."""
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    return exact, (x.shape[1] + 1) * EPS * (np.abs(x) @ np.abs(w).T)


@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 4096, 1000), (65, 700, 333), (400, 300, 100)])
def test_reals_differ_by_the_order_of_sums_at_most(
    rows: int, depth: int, columns: int, real: Library
) -> None:
    x, w = random(0, rows, depth), random(1, columns, depth)
    model = Model("product")
    given = model.input("x", float32(rows, depth))
    model.output(*model.add("fully_connected", [given, model.constant("w", w)]))
    exact, bound = sums(x, w)
    for threads in (1, 2, 3):
        with model.compile("cpu", threads=threads) as compiled:
            first = compiled(x)
            assert (np.abs(first - exact) <= bound).all()
            np.testing.assert_array_equal(compiled(x), first)


def test_quantised_numbers_have_the_same_bits_with_any_number_of_threads(real: Library) -> None:
    model, scale = Model("integers"), Quantization((0.5,), (3,))
    type, filter = (
        quantized(DType.UINT8, (1, 40, 40, 32), 0.04, 120),
        quantized(DType.UINT8, (96, 3, 3, 32), 0.02, 99),
    )
    x = model.input("x", type)
    weights = model.constant("w", stored(1, filter), filter)
    attrs = {"padding": ((1, 1), (1, 1)), "stride": (1, 1)}
    (y,) = model.add("conv2d", [x, weights], attrs, quantization=[scale])
    model.output(y)
    answers = []
    for threads in (1, 2, 3):
        with model.compile("cpu", threads=threads) as compiled:
            answers.append(compiled(stored(0, type)))
    np.testing.assert_array_equal(answers[1], answers[0])
    np.testing.assert_array_equal(answers[2], answers[0])
    assert len(np.unique(answers[0])) > 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_process_has_the_number_of_numpy(fake: Fake) -> None:
    (operation,) = (o for o in products(SMALL).operations if o.op == "fully_connected")
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        found = HostProducts([operation], 2)
        with found.of_run():
            found.use(found.threads(operation))
            inside.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    assert fake.count == 1
    limits = blas.limits()
    assert limits is not None
    limits._after_fork()  # what a child process does
    assert fake.count == 8
    done.set()
    thread.join()
    assert fake.count == 8
