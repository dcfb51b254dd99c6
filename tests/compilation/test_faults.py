"""Small faults: frames that fail in a stream, memory that runs out around a run, too many dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends import base
from gpunn.model import Model
from gpunn.types import MAX_RANK, Array, float32
from tests.compilation.test_bounds import relu
from tests.compilation.test_runtime import PREFERENCES

ONES = np.ones(4, np.float32)


@pytest.mark.parametrize("preference", PREFERENCES)
@pytest.mark.parametrize("good", range(5))
@pytest.mark.parametrize("fault", ["frame", "source"])
def test_stream_gives_the_results_before_a_frame_that_fails(
    fault: str, good: int, preference: gpunn.Preference, backend: str
) -> None:
    def frames() -> Iterator[Array]:
        yield from (ONES * k for k in range(good))
        if fault == "source":
            raise OSError("the camera is gone")
        yield np.ones(5, np.float32)
        raise AssertionError("a frame after the one that failed is taken")

    found: list[float] = []
    kind, message = (OSError, "camera") if fault == "source" else (gpunn.ModelError, "must have shape")
    with relu().compile(backend, preference) as compiled:
        with pytest.raises(kind, match=message):
            found.extend(result[0] for result in compiled.stream(frames()))
        assert found == [*range(good)]
        assert compiled(ONES).tolist() == [1] * 4


class Numpy:
    """numpy, with an array() that finds no memory."""

    @staticmethod
    def array(*_: Any) -> Array:
        raise MemoryError("no 8 GiB")


def test_no_memory_for_an_output_is_a_device_error_and_the_next_run_is_right(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with relu().compile(backend) as compiled:
        event = compiled.submit(ONES)
        event.wait()
        for _ in range(3):
            with monkeypatch.context() as patch:
                patch.setattr(base, "np", Numpy)
                with pytest.raises(gpunn.DeviceError, match=r"out of memory: a copy of 16 bytes: no 8 GiB"):
                    compiled(ONES)
            assert compiled(ONES).tolist() == [1] * 4
        assert event.result().tolist() == [1] * 4


def test_no_memory_for_an_input_is_a_model_error(backend: str) -> None:
    class Huge:
        def __array__(self, *_: Any, **__: Any) -> Array:
            raise MemoryError("no 8 GiB")

    with relu().compile(backend) as compiled:
        for use in (compiled, compiled.submit):
            with pytest.raises(gpunn.ModelError, match=r"input 'x': out of memory: no 8 GiB"):
                use(Huge())
        assert compiled(ONES).tolist() == [1] * 4


def test_tensors_with_more_dimensions_than_numpy_has_are_refused(backend: str) -> None:
    most, model = (1,) * MAX_RANK, Model()
    (y,) = model.add("reshape", [model.input("x", float32(1))], {"shape": most})
    with pytest.raises(gpunn.ModelError, match=f"{MAX_RANK + 1} dimensions, at most {MAX_RANK} are possible"):
        model.add("reshape", [y], {"shape": (1, *most)})
    with pytest.raises(gpunn.ModelError, match=f"{MAX_RANK + 1} dimensions"):
        model.input("z", float32(1, *most))
    model.output(y)
    with model.compile(backend) as compiled:
        assert compiled(np.float32([3])).shape == most
