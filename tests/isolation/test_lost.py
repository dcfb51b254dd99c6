"""Worker processes that end: by the driver, by a signal, with their parent; and processes that fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gpunn
from tests.compilation.test_bounds import relu, summing
from tests.compilation.test_control_flow import doubling
from tests.faults.layer import DEVICE_LOST, OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY, Environment
from tests.isolation.test_isolation import ENDLESS, ONES, SOON, eventually, isolated, process_of
from tests.resources import ENVIRONMENT

posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

# Each ends a process that runs without a worker: tests/upstream shows them.
FATAL = (
    ("vkQueueSubmit", 5, DEVICE_LOST),
    ("vkWaitSemaphores", 3, DEVICE_LOST),
    ("vkGetSemaphoreCounterValue", 9, OUT_OF_DEVICE_MEMORY),
    ("vkBeginCommandBuffer", 5, OUT_OF_HOST_MEMORY),
)


@pytest.mark.parametrize("fault", FATAL, ids=lambda fault: f"{fault[0]}{fault[2]}")
def test_a_driver_that_ends_the_worker_is_a_device_error(
    gpu: str, faulty: Environment, fault: tuple[str, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, nth, result = fault
    with monkeypatch.context() as patch:
        for name, value in faulty(f"{call}:{nth}:1:{-result}").items():
            patch.setenv(name, value)
        compiled = isolated(relu(), gpu)
    with compiled:
        with pytest.raises(gpunn.DeviceError, match="worker process was ended by SIGABRT"):
            for _ in range(40):
                assert compiled(ONES).tolist() == [1] * 4
        assert compiled(ONES).tolist() == [1] * 4  # in another process


def test_a_driver_that_ends_the_worker_in_the_compile_is_a_device_error(
    gpu: str, faulty: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = f"vkBeginCommandBuffer:1:1:{-OUT_OF_HOST_MEMORY}"
    with monkeypatch.context() as patch:
        for name, value in faulty(fault).items():
            patch.setenv(name, value)
        with pytest.raises(gpunn.DeviceError, match="worker process was ended by SIGABRT"):
            isolated(relu(), gpu)
    with isolated(relu(), gpu) as compiled:
        assert compiled(ONES).tolist() == [1] * 4


@posix
def test_after_a_kill_the_next_run_starts_another_worker() -> None:
    with isolated(relu()) as compiled:
        for _ in range(2):
            process_of(compiled).kill()
            assert eventually(lambda: not compiled._worker.alive)
            assert compiled(ONES).tolist() == [1] * 4


@posix
def test_runs_under_way_fail_and_variables_ask_for_recover() -> None:
    with isolated(doubling()) as compiled:
        event = compiled.submit(ENDLESS)
        process_of(compiled).kill()
        with pytest.raises(gpunn.DeviceError, match="worker process was ended by SIGKILL"):
            event.result(timeout=SOON)
        assert event.done() and not event.cancel()
        assert compiled(ONES).tolist() == [128] * 4
    with isolated(summing()) as counting:
        assert counting(ONES)[0] == 1
        process_of(counting).kill()
        assert eventually(lambda: not counting._worker.alive)
        for use in (counting, counting.submit):
            with pytest.raises(gpunn.DeviceError, match=r"values of variables are gone; call recover\(\)"):
                use(ONES)
        assert counting.stats.runs == 0  # nothing was asked of it before
        counting.recover()
        assert counting(ONES)[0] == 1
        counting.recover()
        assert counting.submit(ONES).result()[0] == 1


def run(script: str, **options: object) -> subprocess.Popen[str]:
    """Start a process that runs a script with all names of this module's tests at hand."""
    names = "import os, signal, sys, time\nimport numpy as np\n"
    names += "from tests.isolation.test_lost import *\n"
    command = [sys.executable, "-W", "ignore", "-c", names + textwrap.dedent(script)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload,no-any-return]


def gone(pid: int) -> bool:
    """Tell whether a process has ended, or waits only for somebody to take note."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("how", ["exit", "os._exit", "SIGKILL"])
def test_the_worker_ends_with_its_parent_also_in_an_endless_run(how: str) -> None:
    end = {"exit": "sys.exit()", "os._exit": "os._exit(0)", "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)"}
    parent = run(
        f"""
        compiled = isolated(doubling())
        event = compiled.submit(ENDLESS)
        print(process_of(compiled).pid, flush=True)
        {end[how]}
        """
    )
    said, _ = parent.communicate(timeout=60)
    assert eventually(lambda: gone(int(said)))


@posix
def test_ctrl_c_goes_to_the_parent_and_the_worker_goes_on() -> None:
    parent = run(
        """
        def interrupt(*_):
            os.killpg(0, signal.SIGINT)  # as a terminal does

        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background processes ignore it
        with isolated(doubling()) as compiled:
            before = process_of(compiled).pid
            signal.signal(signal.SIGALRM, interrupt)
            for _ in range(3):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                try:
                    compiled(ENDLESS)
                except KeyboardInterrupt:
                    print("interrupted", flush=True)
                assert compiled(ONES).tolist() == [128] * 4
            os.kill(before, signal.SIGINT)
            assert compiled(ONES).tolist() == [128] * 4
            assert process_of(compiled).pid == before
        """,
        start_new_session=True,
    )
    said, _ = parent.communicate(timeout=60)
    assert (parent.returncode, said.split()) == (0, ["interrupted"] * 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no os.fork()")
def test_a_forked_process_starts_its_own_worker() -> None:
    parent = run(
        """
        compiled, counting = isolated(relu()), isolated(summing())
        event = compiled.submit(ENDLESS)
        pid = os.fork()
        if not pid:
            assert compiled(ONES).tolist() == [1] * 4
            try:
                counting(ONES)
            except gpunn.DeviceError as error:
                assert "recover()" in str(error), error
            compiled.close()
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert event.result().tolist() == [0] * 4
        assert [compiled(ONES)[0], counting(ONES)[0]] == [1, 1]
        pid = os.fork()
        if not pid:
            time.sleep(600)  # the worker ends although another process lives on
        print(process_of(compiled).pid, pid, flush=True)
        """
    )
    assert parent.stdout is not None
    with parent.stdout:
        worker, child = map(int, parent.stdout.readline().split())
    assert parent.wait(60) == 0
    assert eventually(lambda: gone(worker))
    os.kill(child, signal.SIGKILL)
