"""Limits of a model in compile() and in runs, on both backends: LimitError with figures, in time."""

from __future__ import annotations

import copy
import gc
import pickle
import time
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.compilation import assembly
from gpunn.compilation.compiler import memory
from gpunn.limits import Limits
from gpunn.model import Model
from gpunn.types import DType, TensorType, float32
from tests import tflite_builder
from tests.compilation.test_control_flow import doubling
from tests.compilation.test_stop import SOON, in_time

ONES = np.ones(4, np.float32)
INT32 = TensorType(DType.INT32, (2,))


def limited(model: Model, **limits: Any) -> Model:
    model.limits = Limits(**limits)
    return model


def product() -> Model:
    """A model that multiplies 1000 numbers by constants and sums them; tensors of 4000 bytes."""
    model = Model("product")
    x, weights = model.input("x", float32(1000), open=[0]), np.arange(1000, dtype=np.float32)
    (y,) = model.add("mul", [x, model.constant("w", weights[:1])])
    (z,) = model.add("mul", [x, model.constant("v", weights)])
    (total,) = model.add("reduce_sum", [z], {"axes": (0,)})
    model.output(y, total)
    return model


@pytest.mark.parametrize("value", [-1, True, "1", 0.5, float("nan")])
def test_a_limit_is_a_number(value: Any) -> None:
    with pytest.raises(gpunn.ModelError, match="Limits: operators must be an integer of at least 0 or None"):
        Limits(operators=value)
    if value != 0.5:
        with pytest.raises(gpunn.ModelError, match="run_seconds must be a number"):
            Limits(run_seconds=value)


def test_bytes_on_the_host_are_limited_to_the_byte() -> None:
    """The greatest need: x, y, z, y's copy, the sum and its copy, and the constants of 4004 bytes.

    x, y and z are alive while the sum is computed: 12004 bytes. At the end it is x and y, the sum, and two
    copies: 12008 bytes.
    """
    needed = 12008 + 4004
    with limited(product(), host_bytes=needed).compile("cpu") as compiled:
        assert compiled(np.ones(1000, np.float32))[1] == 499500
    with pytest.raises(gpunn.LimitError, match=rf"needs {needed} bytes on the host, 4004 of them") as caught:
        limited(product(), host_bytes=needed - 1).compile("cpu")
    error = caught.value
    assert (error.limit, error.allowed, error.wanted) == ("host_bytes", needed - 1, needed)
    assert isinstance(error, gpunn.DeviceError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.limit, again.wanted) == (str(error), "host_bytes", needed)


def test_what_stays_on_the_device_does_not_count_as_memory_of_the_host(gpu: str) -> None:
    """On the host are x, y and the sum, read back, their copies, and the constants."""
    needed = 3 * 4000 + 2 * 4 + 4004
    with limited(product(), host_bytes=needed).compile(gpu) as compiled:
        assert compiled(np.ones(1000, np.float32))[1] == 499500
    with pytest.raises(gpunn.LimitError, match=rf"needs {needed} bytes on the host"):
        limited(product(), host_bytes=needed - 1).compile(gpu)


def test_bodies_count_with_the_model_around_them() -> None:
    model = doubling()
    with limited(model, host_bytes=1 << 20).compile("cpu") as compiled:
        (part,) = compiled._specialisations.kept()
        inner = max(body.host_bytes for body in part.bodies)
        assert 0 < inner < part.host_bytes
        needed = part.host_bytes + 4  # the constant of the condition
    limited(model, host_bytes=needed).compile("cpu").close()
    with pytest.raises(gpunn.LimitError):
        limited(model, host_bytes=needed - 1).compile("cpu")


def test_other_shapes_have_the_same_limits(backend: str) -> None:
    with limited(product(), host_bytes=1 << 15).compile(backend) as compiled:
        for _ in range(2):
            with pytest.raises((gpunn.LimitError, gpunn.ModelError)):
                compiled(np.ones(10**6, np.float32))
            assert compiled(np.ones(1000, np.float32))[1] == 499500


def kept() -> list[int]:
    """The bytes on devices that belong to compilations."""
    return [n for m in memory() for n in (m.constants, m.arenas, m.staging, m.parameters)]


def filling() -> Any:
    """A file that fills a tensor whose shape is an input: 8 bytes may ask for any memory."""
    graph = tflite_builder.Graph()
    shape, one = graph.input(INT32), graph.constant(np.float32(1))
    (filled,) = graph.add("FILL", [shape, one], [float32(1, 1)])
    return graph.build(graph.add("RELU", [filled], [float32(1, 1)]))


def test_shapes_that_values_decide_have_the_same_limits(backend: str) -> None:
    model = gpunn.load(filling(), limits=Limits(host_bytes=1 << 16))
    with model.compile(backend) as compiled:
        for _ in range(2):
            with pytest.raises(gpunn.LimitError, match="bytes on the host") as caught:
                compiled(np.array([1 << 14, 1 << 14], np.int32))
            assert caught.value.wanted is not None and caught.value.wanted >= 1 << 30
            assert compiled(np.array([2, 3], np.int32)).tolist() == [[1.0] * 3] * 2


def test_bytes_on_the_device_have_one_limit_for_both_ways(gpu: str) -> None:
    def total() -> int:
        return sum(m.total for m in memory())

    product().compile(gpu).close()
    gc.collect()  # compilations that other tests have forgotten
    before = total()
    for allowed, limits in ((None, before), (before, None), (before, 1 << 40), (1 << 40, before)):
        with pytest.raises(gpunn.LimitError, match=f"device_memory_limit is {before}") as caught:
            limited(product(), device_bytes=limits).compile(gpu, device_memory_limit=allowed)
        assert (caught.value.limit, caught.value.allowed) == ("device_bytes", before)
        assert caught.value.wanted is not None and caught.value.wanted > before
        assert total() == before
    limited(product(), device_bytes=before).compile("cpu").close()  # which takes none there


def test_a_run_ends_after_its_seconds(backend: str) -> None:
    model = limited(doubling(), run_seconds=0.2)
    name = model.inputs[0].name
    with model.compile(backend) as compiled:
        ways: list[Any] = [
            lambda: compiled(ONES * 0),
            lambda: compiled.run({name: ONES * 0}, timeout=60),
            lambda: compiled.submit(ONES * 0).result(),
            lambda: list(compiled.stream([ONES * 0])),
            lambda: compiled.trace(ONES * 0),
        ]
        for way in ways:
            began = time.monotonic()
            with pytest.raises(gpunn.LimitError, match=r"the run has not ended after 0\.2 s") as caught:
                way()
            assert in_time(began)
            assert (caught.value.limit, caught.value.allowed, caught.value.wanted) == (
                "run_seconds",
                0.2,
                None,
            )
        with pytest.raises(gpunn.RunTimeoutError):
            compiled.run({name: ONES * 0}, timeout=0.1)
        assert compiled(ONES).tolist() == [128] * 4


@pytest.mark.parametrize("place", ["optimise", "make_plan"])
def test_a_compile_ends_after_its_seconds(backend: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    product().compile(backend).close()
    original, seconds = getattr(assembly, place), 0.05

    def slow(*arguments: Any) -> Any:
        time.sleep(2 * seconds)
        return original(*arguments)

    monkeypatch.setattr(assembly, place, slow)
    model = limited(product(), compile_seconds=seconds)
    if backend == "cpu" and place == "make_plan":
        model.compile(backend).close()  # nothing comes after it that could take long
        return
    before = kept()
    with pytest.raises(gpunn.LimitError, match=r"the compile has not ended after 0\.05 s") as caught:
        model.compile(backend)
    assert caught.value.limit == "compile_seconds"
    assert kept() == before
    limited(model, compile_seconds=SOON).compile(backend).close()


def test_a_compile_in_a_run_has_its_seconds(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = gpunn.load(filling(), limits=Limits(compile_seconds=0.05))
    with model.compile(backend) as compiled:
        original = assembly.optimise
        with monkeypatch.context() as patch:
            patch.setattr(assembly, "optimise", lambda *a: (time.sleep(0.1), original(*a))[1])
            with pytest.raises(gpunn.LimitError, match="the compile has not ended"):
                compiled(np.array([2, 2], np.int32))


def test_models_keep_their_limits() -> None:
    limits = Limits(host_bytes=1 << 16)
    model = gpunn.load(filling(), limits=limits)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.reshaped({})):
        assert other.limits == limits
    assert product().reshaped({"x": [1000]}).limits == Limits()
    assert limited(product(), operators=3).reshaped({"x": [1000]}).limits == Limits(operators=3)
