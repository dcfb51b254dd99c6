"""Processes that fork: the child does without the GPU, says so at once, and ends."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no os.fork()")

PARENT = """
import gc, os, sys, threading, time
import numpy as np
import gpunn
from gpunn.model import Model
from gpunn.types import float32

ONES = np.ones(4, np.float32)

def model(count=1):
    made = Model()
    x = made.input("x", float32(4))
    for _ in range(count):
        (x,) = made.add("relu", [x])
    made.output(x)
    return made

def fails(function, message):
    try:
        function()
    except gpunn.DeviceError as error:
        assert message in str(error), error
    else:
        raise AssertionError("no DeviceError")

def forked(child):
    before = time.monotonic()
    pid = os.fork()
    if not pid:
        child()
        sys.exit(7)
    while time.monotonic() - before < 60:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            assert os.waitstatus_to_exitcode(status) == 7, status
            return
        time.sleep(0.01)
    os.kill(pid, 9)
    raise AssertionError("the child hangs")
"""


def run_parent(script: str) -> None:
    """Run a process that forks."""
    quiet = "ignore::DeprecationWarning"  # of Python 3.12 and later, where other threads run at a fork
    command = [sys.executable, "-W", quiet, "-c", PARENT + textwrap.dedent(script)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert found.returncode == 0, found.stderr
    assert found.stderr == ""


def test_a_child_is_told_that_the_gpu_was_opened_before_fork_and_ends(gpu: str) -> None:
    run_parent(
        """
        compiled = model().compile("webgpu")
        event = compiled.submit(ONES)
        ended = compiled.submit(ONES)
        ended.result()

        def child():
            for use in (lambda: compiled(ONES), lambda: compiled.submit(ONES), compiled.reset_state,
                        lambda: compiled.trace(ONES), lambda: model().compile("webgpu"),
                        lambda: model().compile(device=0), lambda: list(compiled.stream([ONES]))):
                fails(use, "opened before fork; use spawn")
            assert ended.result().tolist() == [1] * 4
            assert gpunn.devices()
            with model().compile("auto") as other:
                assert other(ONES).tolist() == [1] * 4
            compiled.close()
            fails(lambda: compiled(ONES), "closed")

        forked(child)
        forked(lambda: None)
        assert compiled(ONES).tolist() == event.result().tolist() == [1] * 4
        """
    )


def test_a_run_under_way_at_the_fork_fails_in_the_child_only(gpu: str) -> None:
    run_parent(
        """
        compiled = model().compile("webgpu", "sustained-speed")
        event = compiled.submit(ONES)
        forked(lambda: fails(event.result, "opened before fork; use spawn"))
        assert event.result().tolist() == [1] * 4
        """
    )


def test_a_child_may_drop_what_the_parent_has_on_the_gpu(gpu: str) -> None:
    run_parent(
        """
        compiled = model().compile("webgpu")
        compiled(ONES)

        def child():
            global compiled
            del compiled
            gc.collect()

        forked(child)
        """
    )


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has on_exit()")
def test_a_child_does_not_run_exit_handlers_of_drivers(gpu: str) -> None:
    """Mesa's handler, here one that always waits, would wait for threads of the driver."""
    run_parent(
        """
        import ctypes
        libc = ctypes.CDLL(None)
        compiled = model().compile("webgpu")
        libc.on_exit(libc.pause, None)
        forked(lambda: None)
        assert compiled(ONES).tolist() == [1] * 4
        os._exit(0)
        """
    )


def test_a_child_of_a_process_without_a_gpu_may_open_one(gpu: str) -> None:
    run_parent(
        """
        compiled = model().compile("cpu")
        compiled(ONES)

        def child():
            assert model().compile("webgpu")(ONES).tolist() == [1] * 4

        forked(child)
        """
    )


def test_a_compilation_of_the_cpu_backend_works_in_a_child() -> None:
    run_parent(
        """
        compiled = model().compile("cpu")
        compiled.submit(ONES).result()
        slow = model(3).compile("cpu")
        begun, go_on = threading.Event(), threading.Event()
        run_steps = gpunn.backends.cpu.run_steps

        def waiting(*arguments):
            begun.set()
            go_on.wait()
            run_steps(*arguments)

        gpunn.backends.cpu.run_steps = waiting
        event = slow.submit(ONES)  # which holds the lock of its program at the fork
        begun.wait()

        def child():
            go_on.set()
            fails(event.result, "before fork")
            for each in (compiled, slow):
                assert each(ONES).tolist() == each.submit(ONES).result().tolist() == [1] * 4
                assert [list(y) for y in each.stream([ONES] * 5)] == [[1] * 4] * 5
                each.close()

        forked(child)
        go_on.set()
        assert event.result().tolist() == [1] * 4
        """
    )


def test_a_child_has_threads_of_its_own_that_share_loops() -> None:
    pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    run_parent(
        """
        from gpunn.backends import team
        from gpunn.ops.compiled import sharing

        sharing.LEAST = 1e-9
        team.usable_processors = lambda: 4
        made, x = Model(), np.random.default_rng(0).random((1, 40, 40, 8), np.float32)
        filter = made.constant("w", np.ones((32, 3, 3, 8), np.float32))
        made.output(*made.add("conv2d", [made.input("x", float32(1, 40, 40, 8)), filter]))
        compiled = made.compile("cpu", "sustained-speed", threads=4)
        expected = compiled(x)
        running = [threading.Thread(target=lambda: [compiled(x) for _ in range(300)]) for _ in range(2)]
        for thread in running:
            thread.start()

        def child():
            for _ in range(50):
                assert (compiled(x) == expected).all()
            other = made.compile("cpu", "sustained-speed", threads=4)
            assert (other(x) == expected).all()

        for _ in range(5):
            forked(child)
        for thread in running:
            thread.join()
        """
    )
