"""Compilations: results by position and by name, counters, errors, devices."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu import lower as lowering
from gpunn.backends.webgpu.device import open_device
from gpunn.graph.operation import Operation
from gpunn.kernel import Kernel
from gpunn.model import Model
from gpunn.types import Array, TensorType, float32

PREFERENCES = list(gpunn.Preference)


def small_model(channels: int = 8) -> Model:
    """A small model with a residual, a pool, a reshape and a softmax."""
    rng = np.random.default_rng(5)
    model = Model("small_model")
    x = model.input("photo", float32(1, 8, 8, 3))
    weights = model.constant("weights", rng.standard_normal((channels, 3, 3, 3)).astype(np.float32))
    (a,) = model.add("conv2d", [x, weights], {"padding": "same"}, names=["a"])
    (b,) = model.add("relu", [a], names=["b"])
    (c,) = model.add("add", [a, b], names=["c"])
    (d,) = model.add("average_pool2d", [c], {"size": (8, 8)}, names=["d"])
    (e,) = model.add("reshape", [d], {"shape": (1, channels)}, names=["e"])
    (f,) = model.add("softmax", [e], names=["scores"])
    model.output(f)
    return model


def photo(seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((1, 8, 8, 3)).astype(np.float32)


def test_a_call_takes_arrays_in_order_and_run_takes_names(backend: str) -> None:
    with small_model().compile(backend=backend) as compiled:
        scores = compiled(photo())
        assert isinstance(scores, np.ndarray)
        assert scores.sum() == pytest.approx(1, abs=1e-6)
        assert np.array_equal(compiled.run({"photo": photo()})["scores"], scores)


def test_several_outputs_come_as_a_tuple_also_inputs_constants_and_aliases(backend: str) -> None:
    model = Model()
    x = model.input("x", float32(2, 3))
    (y,) = model.add("relu", [x], names=["y"])
    (flat,) = model.add("reshape", [y], {"shape": (6,)}, names=["flat"])
    (line,) = model.add("reshape", [x], {"shape": (6,)}, names=["line"])
    model.output(y, flat, line, x, model.constant("c", np.float32([7])))
    value = np.float32([[-1, 2, -3], [4, -5, 6]])
    with model.compile(backend=backend) as compiled:
        results = compiled(value)
    wanted = [np.maximum(value, 0), np.maximum(value, 0).ravel(), value.ravel(), value, [7]]
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, want)


def test_outputs_share_no_memory_with_one_another_or_with_other_runs(backend: str) -> None:
    model = Model("shared results")
    x = model.input("x", float32(1, 2, 2, 2))
    (y,) = model.add("relu", [x])
    (flat,) = model.add("reshape", [y], {"shape": (8,)})
    (again,) = model.add("neg", [y])
    model.output(y, flat, y, again, x)
    given = np.arange(-4, 4, dtype=np.float32).reshape(1, 2, 2, 2)
    expected = [np.maximum(given, 0).reshape(-1), -np.maximum(given, 0).reshape(-1), given.reshape(-1)]
    with model.compile(backend) as compiled:
        runs = [[*compiled(given), *compiled.submit(given).result()] for _ in range(3)]
    for run in runs:
        for place, found in enumerate(run):
            wanted = expected[max(0, place % 5 - 2)]
            np.testing.assert_array_equal(found.reshape(-1), wanted)
            found[...] = np.nan
    np.testing.assert_array_equal(given.reshape(-1), np.arange(-4, 4))


def host_only(*ops: str) -> Callable[..., Any]:
    """lower(), but some ops have no kernel."""
    real = lowering.lower
    return lambda o, *device: "forced by a test" if o.op in ops else real(o, *device)


def test_a_thousand_runs_upload_their_inputs_and_nothing_else(gpu: str) -> None:
    with small_model().compile(backend=gpu) as compiled:
        compiled(photo())
        start = compiled.stats
        made = (start.buffers, start.bind_groups, start.pipelines, start.constant_uploads, start.arena_bytes)
        uploaded, read, submits, dispatches = (
            start.bytes_uploaded,
            start.bytes_read_back,
            start.submits,
            start.dispatches,
        )
        for _ in range(1000):
            compiled(photo())
        stats = compiled.stats
        assert stats.bytes_uploaded - uploaded == 1000 * photo().nbytes
        assert stats.bytes_read_back - read == 1000 * 8 * 4
        assert stats.submits - submits == 1000
        assert stats.dispatches - dispatches == 1000 * len(compiled.plan_rows())
        assert (
            stats.buffers,
            stats.bind_groups,
            stats.pipelines,
            stats.constant_uploads,
            stats.arena_bytes,
        ) == made


def test_equal_constants_are_uploaded_once_and_freed_with_their_last_user(gpu: str) -> None:
    store = open_device(None, False).constants
    before = store.nbytes
    first = small_model().compile(backend=gpu)
    assert first.stats.constant_uploads > 0
    grown = store.nbytes
    second = small_model().compile(backend=gpu)
    assert second.stats.constant_uploads == 0
    assert second.stats.resident_bytes == first.stats.resident_bytes
    assert store.nbytes == grown > before
    wanted = second(photo())
    first.close()
    assert store.nbytes == grown
    assert np.array_equal(second(photo()), wanted)
    second.close()
    assert store.nbytes == before


def test_an_operation_forced_to_the_host_runs_there_within_one_plan(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = small_model().compile(backend=gpu)(photo())
    monkeypatch.setattr("gpunn.backends.webgpu.lower.lower", host_only("add"))
    for preference in PREFERENCES:
        with small_model().compile(backend=gpu, preference=preference) as compiled:
            places = {p.operation.op: (p.backend, p.reason) for p in compiled.placement}
            assert places["add"] == ("cpu", "forced by a test")
            assert places["softmax"] == ("webgpu", "")
            np.testing.assert_allclose(compiled(photo()), wanted, rtol=1e-6)
            for result in compiled.stream([photo()] * 5):
                np.testing.assert_allclose(result, wanted, rtol=1e-6)
            runs = compiled.stats.runs
            assert compiled.stats.submits == 2 * runs
            crossing = 8 * 8 * 8 * 4
            assert compiled.stats.bytes_uploaded == runs * (photo().nbytes + crossing)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((), "the model takes 1 input, got 0"),
        ((np.zeros((1, 8, 8, 4), np.float32),), r"must have shape \[1, 8, 8, 3\], got \[1, 8, 8, 4\]"),
        ((np.zeros((1, 8, 8, 3), np.float64),), "must be float32, got float64"),
        ((np.zeros((1, 8, 8, 3), complex),), "must be float32, got complex128"),
        (("photo.jpg",), "must have shape"),
    ],
)
def test_a_wrong_input_is_refused_and_leaves_the_compilation_usable(
    backend: str, inputs: tuple[object, ...], message: str
) -> None:
    with small_model().compile(backend=backend) as compiled:
        wanted = compiled(photo())
        with pytest.raises(gpunn.ModelError, match=message):
            compiled(*inputs)
        with pytest.raises(gpunn.ModelError, match="inputs are"):
            compiled.run({"picture": photo()})
        with pytest.raises(gpunn.ModelError, match="inputs are"):
            compiled.run({"photo": photo(), 1: photo()})  # type: ignore[dict-item]
        with pytest.raises(gpunn.ModelError, match="takes a mapping of the inputs"):
            compiled.run([photo()])  # type: ignore[arg-type]
        with pytest.raises(gpunn.ModelError, match="frames must be a list of inputs, got None"):
            next(compiled.stream(None))  # type: ignore[arg-type]
        assert np.array_equal(compiled(photo()), wanted)


def test_outputs_of_one_name_come_in_order_only() -> None:
    model = gpunn.Model("twice")
    x = model.input("x", float32(2))
    model.output(model.add("neg", [x], names=["y"])[0], model.add("relu", [x], names=["y"])[0])
    with model.compile("cpu") as compiled:
        value = np.ones(2, np.float32)
        assert [y.tolist() for y in compiled(value)] == [[-1, -1], [1, 1]]
        with pytest.raises(gpunn.ModelError, match=r"cannot name the outputs \['y', 'y'\]"):
            compiled.run({"x": value})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": 5}, "takes a path or the bytes of a file, got int"),
        ({"source": b"", "limits": {}}, "limits must be gpunn.Limits, got dict"),
        ({"source": b"", "custom": {"x": 5}}, "custom must be a mapping from names to gpunn.CustomOperator"),
    ],
)
def test_load_refuses_arguments_of_other_kinds(given: dict[str, Any], message: str) -> None:
    with pytest.raises(gpunn.ModelError, match=message):
        gpunn.load(**given)


def test_nan_in_gives_nan_out_and_the_next_run_is_clean(backend: str) -> None:
    with small_model().compile(backend=backend) as compiled:
        wanted = compiled(photo())
        assert np.isnan(compiled(np.full((1, 8, 8, 3), np.nan, np.float32))).all()
        assert np.array_equal(compiled(photo()), wanted)


def test_a_closed_compilation_says_so(backend: str) -> None:
    compiled = small_model().compile(backend=backend)
    event = compiled.submit(photo())
    compiled.close()
    compiled.close()
    assert event.result().shape == (1, 8), "runs under way at close() still end"
    with pytest.raises(gpunn.DeviceError, match="closed"):
        compiled(photo())
    with pytest.raises(gpunn.DeviceError, match="closed"):
        compiled.submit(photo())


def test_a_lost_device_is_an_error_and_the_next_compilation_gets_a_new_one(gpu: str) -> None:
    compiled = small_model().compile(backend=gpu)
    earlier = compiled(photo())
    open_device(None, False).wgpu.destroy()
    with pytest.raises(gpunn.DeviceError, match=r"failed|lost"):
        compiled(photo())
    with pytest.raises(gpunn.DeviceError, match="lost; compile the model again"):
        compiled(photo())
    compiled.close()
    with small_model().compile(backend=gpu) as fresh:
        assert np.array_equal(fresh(photo()), earlier)


def test_running_out_of_host_memory_is_a_device_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("no 8 GiB")

    model = Model()
    model.output(*model.add("relu", [model.input("x", float32(2))], origin="the file"))
    monkeypatch.setattr(Operation, "direct", lambda _: fail)
    compilation = model.compile("cpu")
    with pytest.raises(gpunn.DeviceError, match=r"out of memory: relu \(the file\): no 8 GiB"):
        compilation(np.ones(2, np.float32))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(gpunn.ModelError, match="backend must be one of"):
        small_model().compile(backend="cuda")
    with pytest.raises(gpunn.DeviceError, match="there is no GPU adapter 'Voodoo'"):
        small_model().compile(backend="webgpu", device="Voodoo")
    with pytest.raises(gpunn.ModelError, match="device 'Voodoo' goes with backend 'webgpu' or 'auto'"):
        small_model().compile(backend="cpu", device="Voodoo")
    with pytest.raises(gpunn.ModelError, match=r"must be a gpunn\.Preference or one of .*, got 'fast'"):
        small_model().compile(backend="cpu", preference="fast")  # type: ignore[arg-type]
    empty = Model("empty")
    empty.input("x", TensorType(gpunn.DType.FLOAT32, (1,)))
    with pytest.raises(gpunn.ModelError, match="has no outputs"):
        empty.compile(backend="cpu")


def test_auto_never_takes_a_software_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    with small_model().compile() as compiled:
        kinds = {d.kind for d in gpunn.devices() if d.backend == "webgpu"}
        assert compiled.backend == ("webgpu" if kinds - {"CPU"} else "cpu")


def test_a_tensor_over_the_binding_limit_is_divided_or_bound_in_segments(gpu: str) -> None:
    """A function of each element is computed in two parts; a transpose needs all elements at once."""
    device = open_device(None, False).properties
    limit = min(device.limit("max-storage-buffer-binding-size"), device.limit("max-buffer-size") // 2)
    device = replace(device, limits={**device.limits, "max-storage-buffer-binding-size": limit})
    model = Model("big")
    x = model.input("x", float32(limit // 4 + 16))
    (y,) = model.add("relu", [x])
    (rows,) = model.add("reshape", [y], {"shape": (2, limit // 8 + 8)})
    model.add("transpose", [rows], {"perm": (1, 0)})
    relu, _, transpose = model.operations
    kernels = lowering.lower(relu, device)
    assert not isinstance(kernels, str)
    windows = [window for kernel in kernels for window in (kernel.reads[0].window, kernel.writes[0].window)]
    assert all(window is not None and window[1] <= limit for window in windows)
    assert sum(window[1] for window in windows if window is not None) == 2 * (limit + 64)
    (moved,) = lowering.lower(transpose, device)
    assert isinstance(moved, Kernel)
    assert moved.bindings == 4


def test_devices_end_with_the_cpu() -> None:
    found = gpunn.devices()
    assert found[-1].backend == "cpu"
    assert all(d.limits["max-storage-buffer-binding-size"] > 0 for d in found[:-1])


def test_compiling_from_several_threads_makes_one_device(gpu: str) -> None:
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(open_device(None, False))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_inputs_across_addresses_of_numbers_give_the_same_bits(backend: str) -> None:
    model = Model("product")
    shapes, turned = ((1, 30, 1), (1, 5, 30)), {"adj_a": True, "adj_b": True}
    operands = [model.input(f"x{k}", float32(*s)) for k, s in enumerate(shapes)]
    model.output(*model.add("batch_matmul", operands, turned))
    inputs = [np.random.default_rng(k).standard_normal(s).astype(np.float32) for k, s in enumerate(shapes)]
    apart: list[Array] = [np.ndarray(x.shape, x.dtype, bytearray(x.nbytes + 1), 1) for x in inputs]
    for x, copy in zip(inputs, apart, strict=True):
        copy[...] = x
        assert not copy.flags.aligned
    with model.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(*apart), compiled(*inputs))
