"""Memory on the device: what compilations hold, limits, and what forgotten ones leave."""

from __future__ import annotations

import gc
import time
import warnings
import weakref

import numpy as np
import pytest
import wgpu

import gpunn
from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.pipelines import Pipelines
from gpunn.model import Model
from gpunn.types import float32
from tests.compilation.test_bounds import relu, summing

ONES = np.ones(4, np.float32)
SIDE = 1024  # of weights of 4 MiB


def heavy(seed: int) -> Model:
    """A model with weights of 4 MiB that no other has."""
    model = Model(f"heavy {seed}")
    weights = np.full((SIDE, SIDE), seed, np.float32)
    (y,) = model.add("fully_connected", [model.input("x", float32(1, SIDE)), model.constant("w", weights)])
    model.output(y)
    return model


def resident(gpu: str) -> int:
    """Count the bytes of these weights on the device, with those that fill up a texture."""
    with heavy(0).compile(gpu) as compiled:
        assert compiled.stats.resident_bytes >= 4 * SIDE * SIDE
        return compiled.stats.resident_bytes


def used() -> gpunn.DeviceMemory:
    gc.collect()
    name = open_device(None, False).info.name
    (found,) = (m for m in gpunn.memory() if m.device == name)
    return found


def test_fifty_forgotten_compilations_leave_the_device_as_it_was(gpu: str) -> None:
    before = used()
    largest = 0
    for seed in range(50):
        compiled = heavy(seed).compile(gpu)
        assert compiled(np.ones((1, SIDE), np.float32))[0, 0] == seed * SIDE
        del compiled  # which nothing refers to now: no collection of garbage is needed
        largest = max(largest, sum(m.constants for m in gpunn.memory()))
    assert largest <= before.constants + resident(gpu)
    assert used() == before


def test_shared_weights_go_with_the_last_compilation(gpu: str) -> None:
    before = used()
    first, second = (heavy(1).compile(gpu) for _ in range(2))
    weights = first.stats.resident_bytes
    assert used().constants == before.constants + weights
    del first
    assert used().constants == before.constants + weights
    assert second(np.ones((1, SIDE), np.float32))[0, 0] == SIDE
    second.close()
    assert used() == before


def test_an_event_outlives_its_compilation(gpu: str) -> None:
    before = used()
    event = heavy(2).compile(gpu).submit(np.ones((1, SIDE), np.float32))
    gc.collect()
    assert gpunn.memory()
    assert event.result()[0, 0] == 2 * SIDE
    del event
    assert used() == before


def test_memory_counts_what_a_compilation_says_of_itself(gpu: str) -> None:
    before = used()
    with summing().compile(gpu, "sustained-speed") as compiled:
        stats, now = compiled.stats, used()
        assert now.arenas - before.arenas == stats.arena_bytes + stats.state_bytes
        assert now.staging - before.staging == stats.staging_bytes
        assert now.constants - before.constants == stats.resident_bytes
        assert now.total > before.total
    assert used() == before


def test_a_limit_refuses_at_once_with_figures_and_leaves_nothing(gpu: str) -> None:
    before, weights = used(), resident(gpu)
    room = before.total + weights
    message = rf"needs {weights} bytes.*has \d+ bytes on the device.*device_memory_limit is {room}"
    with pytest.raises(gpunn.DeviceError, match=message):
        heavy(3).compile(gpu, device_memory_limit=room)
    assert used() == before
    with heavy(3).compile(gpu, device_memory_limit=room + (1 << 20)) as compiled:
        assert compiled(np.ones((1, SIDE), np.float32))[0, 0] == 3 * SIDE
    for limit in (-1, True, "1 GB"):
        with pytest.raises(gpunn.ModelError, match="device_memory_limit must be"):
            heavy(3).compile(gpu, device_memory_limit=limit)  # type: ignore[arg-type]


def test_forgetting_a_compilation_warns_and_closing_it_does_not(gpu: str) -> None:
    def warned(close: bool) -> list[type[Warning]]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            compiled = relu().compile(gpu)
            if close:
                compiled.close()
            del compiled
            gc.collect()
        return [w.category for w in found if "<Compilation" in str(w.message)]

    assert warned(close=False) == [ResourceWarning]
    assert warned(close=True) == []


def test_a_forgotten_compilation_of_the_cpu_leaves_nothing_to_close() -> None:
    """So it gives no ResourceWarning: its memory is Python's, and the thread of submitted runs ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = heavy(5).compile("cpu")
        weights = weakref.ref(compiled.model.operations[0].inputs[1].value)
        assert compiled.submit(np.ones((1, SIDE), np.float32)).result()[0, 0] == 5 * SIDE
        (part,) = compiled._specialisations.kept()
        thread = part.program._queue._belt
        assert not thread.ended
        del part
        del compiled
        gc.collect()
    assert weights() is None
    deadline = time.monotonic() + 60
    while not thread.ended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert thread.ended


@pytest.mark.parametrize("when", ["between runs", "in flight", "between compiles"])
def test_a_destroyed_device_is_replaced_and_its_compilations_recover(gpu: str, when: str) -> None:
    with summing().compile(gpu) as compiled:
        assert compiled(ONES).tolist() == [1] * 4
        device = open_device(None, False)
        event = compiled.submit(ONES) if when == "in flight" else None
        device.wgpu.destroy()
        if when != "between compiles":
            with pytest.raises(gpunn.DeviceError):
                if event is not None:
                    event.result()
                compiled(ONES)
            with pytest.raises(gpunn.DeviceError, match="lost; compile the model again, or call recover"):
                compiled(ONES)
        with relu().compile(gpu) as other:
            assert other(ONES).tolist() == [1] * 4
        compiled.recover()
        assert [compiled(ONES)[0], compiled.submit(ONES).result()[0]] == [1, 2]
        assert open_device(None, False) is not device
    with pytest.raises(gpunn.DeviceError, match="closed"):
        compiled.recover()


def test_errors_of_the_driver_in_a_compile_are_device_errors(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, device = used(), open_device(None, False)

    def fail(*_: object, **__: object) -> None:
        raise wgpu.GPUValidationError("injected")

    for name in ("create_bind_group", "create_compute_pipeline", "create_bind_group_layout"):
        with monkeypatch.context() as patch:
            patch.setattr(device, "_pipelines", Pipelines())
            patch.setattr(device, "_layouts", {})
            patch.setattr(device.wgpu, name, fail)
            with pytest.raises(gpunn.DeviceError, match="injected"):
                heavy(4 + len(name)).compile(gpu, relaxed=name != "create_bind_group")
        assert used() == before
        assert open_device(None, False) is device
