"""Compilations in a worker process answer as those of this process do."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn
from benchmarks.interrupts import CASES, sections
from gpunn import vision
from gpunn.isolation import process
from gpunn.isolation.compilation import IsolatedCompilation
from gpunn.model import Model
from gpunn.tuning import records
from gpunn.types import DType, TensorType, float32
from tests.compilation.test_bounds import relu, summing
from tests.compilation.test_control_flow import doubling
from tests.compilation.test_memory import SIDE, heavy
from tests.resources import ROOT
from tests.web_server import endless

ONES = np.ones(4, np.float32)
ENDLESS = ONES * 0
SOON = 30.0  # seconds in which everything here ends, on a busy machine, too


def isolated(model: Model, backend: str = "cpu", *arguments: Any, **options: Any) -> IsolatedCompilation:
    made = model.compile(backend, *arguments, isolate=True, **options)
    assert isinstance(made, IsolatedCompilation)
    return made


def process_of(compiled: IsolatedCompilation) -> subprocess.Popen[bytes]:
    return compiled._worker._link.process


def eventually(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + SOON
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_all_ways_to_run_give_what_this_process_gives(
    backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # which the worker process inherits
    monkeypatch.setattr("gpunn.cache.cache_folder", lambda: tmp_path / "gpunn")
    monkeypatch.setattr(records, "_known", {})  # so both have the kernels that the worker has measured
    model = gpunn.load(vision.default_model())
    (shape,) = (i.type.shape for i in model.inputs)
    frames = [np.random.default_rng(k).random(shape, np.float32) for k in range(5)]
    with (
        isolated(model, backend, "sustained-speed") as compiled,
        model.compile(backend, "sustained-speed") as local,
    ):
        wanted = [local(x) for x in frames]
        name = model.inputs[0].name
        found = {
            "call": [compiled(x) for x in frames],
            "run": [*compiled.run({name: frames[0]}, timeout=60).values(), *wanted[1:]],
            "submit": [event.result() for event in [compiled.submit(x) for x in frames]],
            "stream": list(compiled.stream(frames)),
            "trace": [compiled.trace(x, whole=x is frames[0]).outputs[0] for x in frames],
        }
        for way, results in found.items():
            assert all(np.array_equal(a, b) for a, b in zip(results, wanted, strict=True)), way
        assert (compiled.backend, compiled.device, compiled.frames) == (backend, local.device, local.frames)
        assert compiled.stats.runs == 21
        assert [p.backend for p in compiled.placement] == [p.backend for p in local.placement]
        assert len(compiled.plan_rows()) == len(local.plan_rows())
        assert sum(compiled.constants().values()) == sum(local.constants().values())
        found["call"][0][:] = 0  # results are the caller's own, and no later run sees it
        assert np.array_equal(compiled(frames[0]), wanted[0])
    assert compiled.stats.runs == 22


def test_results_of_unknown_shapes_and_strings_come_back() -> None:
    with isolated(sections()) as compiled:
        for k in range(3):
            values = np.arange(16, dtype=np.float32).reshape(2, 8) + k
            assert np.allclose(compiled(values), np.tanh(values.reshape(-1)))
    text = Model()
    text.output(text.input("s", TensorType(DType.STRING, (2,))))
    with isolated(text) as compiled:
        assert compiled(["é", "long " * 5000]).tolist() == text.compile("cpu")(["é", "long " * 5000]).tolist()
    wide = Model()
    x = wide.input("x", float32(2, 3), open=[0])
    wide.output(*wide.add("concat", [x] * 50, {"axis": 1}))
    with isolated(wide) as compiled:
        for rows in (1, 4000, 3):
            assert compiled(np.full((rows, 3), rows, np.float32)).shape == (rows, 150)


def test_errors_of_a_run_come_back_and_the_worker_goes_on() -> None:
    with isolated(relu()) as compiled:
        before = process_of(compiled).pid
        for wrong in (np.ones(3, np.float32), "text", None):
            with pytest.raises(gpunn.ModelError):
                compiled(wrong)
            with pytest.raises(gpunn.ModelError):
                compiled.submit(wrong)
        assert compiled(ONES).tolist() == [1] * 4
        assert process_of(compiled).pid == before
    for use in (lambda: compiled(ONES), lambda: compiled.submit(ONES), compiled.recover):
        with pytest.raises(gpunn.DeviceError, match="has been closed"):
            use()
    with pytest.raises(gpunn.ModelError, match="goes with backend"):
        isolated(relu(), "cpu", device=0)


def test_variables_change_in_order_and_can_be_reset() -> None:
    with isolated(summing()) as compiled:
        events = [compiled.submit(ONES) for _ in range(3)]
        assert [event.result()[0] for event in events] == [1, 2, 3]
        assert compiled(ONES)[0] == 4
        assert [value.reshape(-1)[0] for value in compiled.variables().values()] == [4]
        compiled.reset_state()
        assert compiled(ONES)[0] == 1


def test_copies_begin_anew() -> None:
    with isolated(summing()) as compiled:
        compiled(ONES)
        for again in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
            with again:
                assert isinstance(again, IsolatedCompilation)
                assert process_of(again).pid != process_of(compiled).pid
                assert again(ONES)[0] == 1


def test_what_has_no_end_is_stopped(backend: str) -> None:
    with isolated(doubling(), backend) as compiled:
        before = process_of(compiled).pid
        (name,) = (i.name for i in compiled.model.inputs)
        with pytest.raises(gpunn.RunTimeoutError, match=r"not ended after 0\.2 s"):
            compiled.run({name: ENDLESS}, timeout=0.2)
        with pytest.raises(gpunn.ModelError, match="timeout must be a number of seconds"):
            compiled.run({name: ENDLESS}, timeout="5")  # type: ignore[arg-type]
        event = compiled.submit(ENDLESS)
        with pytest.raises(gpunn.RunTimeoutError):
            event.result(timeout=0.1)
        assert not event.done() and event.cancel()
        with pytest.raises(gpunn.RunCancelledError):
            event.result()
        assert compiled(ONES).tolist() == [128] * 4
        assert process_of(compiled).pid == before
        compiled.submit(ENDLESS)


def test_a_worker_that_does_not_stop_in_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE", 0.3)
    monkeypatch.setattr("gpunn.isolation.compilation.GRACE", 0.3)
    with isolated(relu()) as compiled:
        os.kill(process_of(compiled).pid, 19)  # SIGSTOP: a driver that does not answer
        with pytest.raises(gpunn.RunTimeoutError, match=r"after 0\.2 s, and its worker process was ended"):
            compiled.run({"x": ONES}, timeout=0.2)
        assert compiled(ONES).tolist() == [1] * 4


def test_threads_share_a_worker() -> None:
    with isolated(relu()) as compiled, ThreadPoolExecutor(8) as pool:
        frames = [np.full(4, k, np.float32) for k in range(200)]
        assert all(np.array_equal(y, x) for x, y in zip(frames, pool.map(compiled, frames), strict=True))


@pytest.mark.parametrize("how", [("--every", "307"), ("--random", "2")], ids=["everywhere", "random"])
def test_after_an_interrupt_the_same_worker_gives_the_right_answer(how: tuple[str, str]) -> None:
    cases = [f"isolated:{name}" for name in CASES if name not in ("compiling", "closing")]
    command = [sys.executable, "-m", "benchmarks.interrupts", *cases, *how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


def test_what_cannot_go_to_another_process_is_refused(tmp_path: Path) -> None:
    def twice(x: Any) -> Any:
        return x + x

    model = Model()
    op = gpunn.custom.op(lambda call: call.x)(twice)
    model.output(*model.add(op, [model.input("x", float32(4))]))
    with pytest.raises(gpunn.ModelError, match="isolate=True needs a model that can be pickled"):
        isolated(model)


def test_a_forgotten_compilation_warns_and_its_worker_ends() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        compiled = isolated(relu())
        event, ended = compiled.submit(ONES), process_of(compiled)
        del compiled
        gc.collect()
        assert event.result().tolist() == [1] * 4  # an event keeps its compilation
        assert ended.returncode is None
        del event
        gc.collect()
    assert [w.category for w in found if "<Compilation" in str(w.message)] == [ResourceWarning]
    found.clear()  # a warning refers to its compilation
    assert eventually(lambda: ended.returncode is not None)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_compiles_and_ends_leave_nothing() -> None:
    def use() -> None:
        with isolated(relu()) as compiled:
            compiled.submit(np.ones(4, np.float32)).result()

    def held() -> tuple[int, int, list[str]]:
        gc.collect()
        shared = [name for name in os.listdir("/dev/shm") if "gpunn" in name]
        return len(os.listdir("/proc/self/fd")), threading.active_count(), shared

    use()
    assert eventually(lambda: threading.active_count() == 1 or held() == held())
    before = held()
    for _ in range(3):
        use()
    assert eventually(lambda: held() == before), (held(), before)
    with pytest.raises(ChildProcessError):  # no zombies
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
        raise ChildProcessError


def test_memory_of_workers_is_counted(gpu: str) -> None:
    def constants() -> int:
        gc.collect()
        return sum(m.constants for m in gpunn.memory())

    before = constants()
    with isolated(heavy(17), gpu) as compiled:
        assert compiled(np.ones((1, SIDE), np.float32))[0, 0] == 17 * SIDE
        weights = compiled.stats.resident_bytes
        assert weights >= 4 * SIDE * SIDE
        assert constants() == before + weights
        assert [m.constants for m in compiled.memory()] == [weights]
    assert constants() == before


def test_placements_of_loops_come_back() -> None:
    with isolated(doubling()) as compiled:
        compiled(ONES)
        assert [p.operation.op for p in compiled.placement if not p.depth] == ["while_loop"]
        assert compiled.trace(ONES).outputs[0].tolist() == [128] * 4


def test_limits_hold_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunn.isolation.compilation.GRACE", 0.3)
    monkeypatch.setattr(process, "GRACE", 0.3)
    limits = gpunn.Limits(run_seconds=0.5)
    model = gpunn.load(endless(), limits=limits)
    with isolated(model) as compiled:
        x = np.ones(model.inputs[0].type.shape, np.float32)
        for stop in (False, True):
            if stop:
                os.kill(process_of(compiled).pid, 19)  # SIGSTOP
            with pytest.raises(gpunn.LimitError, match=r"run has not ended after 0\.5 s") as caught:
                compiled(x)
            assert caught.value.limit == "run_seconds"
    monkeypatch.setattr(process, "START", -1e9)
    with pytest.raises(gpunn.LimitError, match="compile has not ended"):
        isolated(gpunn.load(endless(), limits=gpunn.Limits(compile_seconds=1)))
