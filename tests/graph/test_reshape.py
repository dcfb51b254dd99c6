"""Inputs of other shapes: reshaped models, and compilations that specialise for the shapes of a call."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu.device import open_device
from gpunn.compilation.specialise import MAX_SPECIALISATIONS
from gpunn.model import Model
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.tflite_builder import Graph, litert_run

WEIGHTS = np.random.default_rng(5).standard_normal((8, 3, 3, 3)).astype(np.float32)
# 27 products of numbers around 1 add up to some 10, each sum rounded to 2^-24 of that: below 27 * 10 * 6e-8.
CLOSE = {"rtol": 0, "atol": 2e-5}


def photo(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal((*shape, 3)).astype(np.float32)


def averaging_model() -> Model:
    """A model of images of any number and size: a convolution, and the mean of each channel."""
    model = Model("averaging_model", labels=("a", "b"))
    x = model.input("photo", float32(1, 8, 8, 3), open=(0, 1, 2))
    (a,) = model.add("conv2d", [x, model.constant("w", WEIGHTS)], {"padding": "same"}, names=["a"])
    (b,) = model.add("mean", [a], {"axes": (1, 2), "keep_dims": False}, names=["scores"])
    model.output(b)
    return model


def expected(x: Array) -> Array:
    """Compute what averaging_model() computes, by definition, in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    found: Array = np.einsum("nhwcij,oijc->nhwo", windows, WEIGHTS).mean(axis=(1, 2))
    return found


def computed_shape() -> bytes:
    """A file with an open batch, whose RESHAPE gets its shape from SHAPE -> STRIDED_SLICE -> PACK."""
    graph = Graph()
    one, ints, vector = (TensorType(DType.INT32, shape) for shape in ((), (2,), (4,)))
    x = graph.input(float32(1, 4, 4, 3), "x", (-1, -1, 4, 3))
    (y,) = graph.add("RELU", [x], [float32(1, 4, 4, 3)], signatures=[(-1, -1, 4, 3)])
    (shape,) = graph.add("SHAPE", [y], [vector], {"out_type": "INT32"})
    bounds = [graph.constant(np.array([n], np.int32)) for n in (0, 1, 1)]
    (batch,) = graph.add("STRIDED_SLICE", [shape, *bounds], [one], {"shrink_axis_mask": 1})
    rest = graph.constant(np.array(-1, np.int32))
    (target,) = graph.add("PACK", [batch, rest], [ints], {"values_count": 2})
    return graph.build(graph.add("RESHAPE", [y, target], [float32(1, 48)], signatures=[(-1, -1)]))


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 5, 9), (2, 1, 1)])
def test_a_call_with_another_shape_is_specialised(backend: str, shape: tuple[int, ...]) -> None:
    model = averaging_model()
    with model.compile(backend=backend) as compiled:
        for x in (photo(1, 8, 8), photo(*shape), photo(1, 8, 8)):
            np.testing.assert_allclose(compiled(x), expected(x), **CLOSE)
            assert compiled.placement[0].operation.inputs[0].type.shape == x.shape
            np.testing.assert_array_equal(compiled.run({"photo": x})["scores"], compiled(x))
            np.testing.assert_array_equal(compiled.submit(x).result(), compiled(x))
        assert (compiled.stats.runs, compiled.stats.programs) == (15, 2)
    with model.compile(backend, shapes={"photo": (*shape, 3)}) as compiled:
        np.testing.assert_allclose(compiled(photo(*shape)), expected(photo(*shape)), **CLOSE)


def test_a_stream_may_mix_shapes(backend: str) -> None:
    frames = [photo(1 + k % 3, 8, 8) for k in range(7)]
    with averaging_model().compile(backend=backend, preference=gpunn.Preference.SUSTAINED_SPEED) as compiled:
        for x, y in zip(frames, compiled.stream(frames), strict=True):
            np.testing.assert_allclose(y, expected(x), **CLOSE)


def test_specialisations_are_bounded_share_constants_and_are_freed(gpu: str) -> None:
    store = open_device(None, False).constants
    before = store.nbytes
    compiled = averaging_model().compile(backend=gpu)
    first = compiled.stats
    for n in range(1, MAX_SPECIALISATIONS + 4):
        np.testing.assert_allclose(compiled(photo(n, 8, 8)), expected(photo(n, 8, 8)), **CLOSE)
    stats = compiled.stats
    count = MAX_SPECIALISATIONS + 3
    assert (stats.programs, stats.runs) == (count, count)
    assert stats.resident_bytes == first.resident_bytes
    assert stats.constant_uploads == first.constant_uploads
    assert stats.bytes_read_back == sum(range(1, count + 1)) * 8 * 4
    kept = range(count - MAX_SPECIALISATIONS + 1, count + 1)
    assert stats.arena_bytes < (sum(kept) + MAX_SPECIALISATIONS) * 8 * 8 * (3 + 8) * 4 + 4096
    compiled(photo(count, 8, 8))
    assert compiled.stats.programs == count, "what is kept is not built again"
    compiled.close()
    assert store.nbytes == before
    assert compiled.stats.runs == count + 1 and compiled.stats.arena_bytes == 0
    with pytest.raises(gpunn.DeviceError, match="closed"):
        compiled(photo(1, 8, 8))


def test_threads_may_use_more_shapes_than_are_kept(backend: str) -> None:
    frames = [photo(1 + k % (2 * MAX_SPECIALISATIONS), 4, 4) for k in range(48)]
    with averaging_model().compile(backend=backend) as compiled, ThreadPoolExecutor(4) as pool:
        for x, y in zip(frames, pool.map(compiled, frames), strict=True):
            np.testing.assert_allclose(y, expected(x), **CLOSE)


def test_extents_that_are_not_open_must_fit(backend: str) -> None:
    with averaging_model().compile(backend=backend) as compiled:
        with pytest.raises(
            gpunn.ModelError, match=r"'photo' must have shape \[\?, \?, \?, 3\], got \[1, 8, 8, 4\]"
        ):
            compiled(np.zeros((1, 8, 8, 4), np.float32))
        with pytest.raises(gpunn.ModelError, match=r"got \[8, 8, 3\]"):
            compiled(np.zeros((8, 8, 3), np.float32))


def test_a_shape_that_an_operation_refuses_leaves_the_others(backend: str) -> None:
    model = Model()
    x = model.input("x", float32(1, 8, 8, 3), open=[1])
    model.output(*model.add("average_pool2d", [x], {"size": (4, 4), "padding": "valid"}))
    with model.compile(backend=backend) as compiled:
        wanted = compiled(photo(1, 8, 8))
        with pytest.raises(gpunn.ModelError, match="does not fit"):
            compiled(photo(1, 2, 8))
        np.testing.assert_array_equal(compiled(photo(1, 8, 8)), wanted)


def test_a_handmade_model_is_reshaped_without_loss() -> None:
    model = averaging_model()
    (q,) = model.add("quantize", model.outputs, {"dtype": "uint8", "scale": 0.5, "zero_point": 3})
    (r,) = model.add("relu", [q], quantization=[Quantization((0.25,), (9,))], origin="here", names=["r"])
    (d,) = model.add("dequantize", [r])
    model.output(model.inputs[0], d, model.constant("c", np.ones(3, np.float32)))
    changed = model.reshaped({"photo": (2, 4, 6, 3)})
    assert [(i.name, i.declared, i.type.shape) for i in changed.inputs] == [
        ("photo", "float32[?, ?, ?, 3]", (2, 4, 6, 3))
    ]
    assert changed.labels == model.labels
    for old, new in zip(model.operations, changed.operations, strict=True):
        assert (new.op, new.attrs, new.origin) == (old.op, old.attrs, old.origin)
        assert [o.name for o in new.outputs] == [o.name for o in old.outputs]
        assert [o.type.quantization for o in new.outputs] == [o.type.quantization for o in old.outputs]
    x = photo(2, 4, 6)
    scores, same, approximate, ones = changed.compile("cpu")(x)
    np.testing.assert_allclose(scores, expected(x), **CLOSE)
    np.testing.assert_array_equal(same, x)
    assert np.abs(approximate - np.clip(scores, 0, (255 - 9) / 4)).max() <= 0.5
    assert ones.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"picture": (1, 8, 8, 3)}, r"inputs are \['photo'\], 'picture' is not one of them"),
        ({"photo": (1, 8, 8, 4)}, "conv2d"),
        ({"photo": (8, 8, 3)}, "rank 4"),
        ({"photo": (-1, 8, 8, 3)}, "negative dimension"),
        ({"photo": (1, 2**31, 8, 3)}, "at most"),
        ({"photo": (1, 8.5, 8, 3)}, "should be integers"),
        ({"photo": 3}, "should be integers"),
    ],
)
def test_wrong_shapes_are_refused(shapes: Mapping[str, Any], message: str) -> None:
    with pytest.raises(gpunn.ModelError, match=message):
        averaging_model().compile("cpu", shapes=shapes)


def test_another_shape_resets_the_state(backend: str) -> None:
    """As in TFLite, where a resized model has to allocate its tensors again."""
    model = Model()
    x = model.input("x", float32(2, 3), open=[0])
    total = model.variable("total", float32(3))
    (column,) = model.add("reduce_sum", [x], {"axes": (0,)})
    (grown,) = model.add("add", [total, column])
    model.update(total, grown)
    model.output(grown)
    with model.compile(backend=backend) as compiled:
        sums = [float(compiled(np.ones((n, 3), np.float32))[0]) for n in (2, 2, 5, 5, 2)]
        assert sums == [2, 4, 5, 10, 2]
        compiled.reset_state()
        assert compiled(np.ones((2, 3), np.float32)).tolist() == [2, 2, 2]
    with pytest.raises(gpunn.DeviceError, match="closed"):
        compiled.reset_state()


def test_an_input_may_have_any_shape(backend: str) -> None:
    model = Model()
    model.output(*model.add("neg", [model.input("x", float32(2), open=None)]))
    assert model.inputs[0].declared == "float32[...]"
    with model.compile(backend) as compiled:
        for x in (photo(2, 3), photo(), photo(1, 2, 3, 4), np.float32(3)):
            np.testing.assert_array_equal(compiled(x), -x)
            assert np.shape(compiled(x)) == np.shape(x)


def test_only_the_stated_axes_of_an_input_are_open() -> None:
    with pytest.raises(gpunn.ModelError, match=r"has no axes \[2\]"):
        Model().input("x", float32(1, 2), open=[2])


@pytest.mark.parametrize("shape", [(1, 4), (3, 4), (2, 7)])
def test_shapes_computed_from_shapes_follow_the_inputs(backend: str, shape: tuple[int, int]) -> None:
    data = computed_shape()
    model = gpunn.load(data)
    assert (model.inputs[0].declared, model.outputs[0].declared) == ("float32[?, ?, 4, 3]", "float32[?, ?]")
    x = photo(*shape, 4)
    with model.compile(backend=backend) as compiled:
        np.testing.assert_array_equal(compiled(x), litert_run(data, [x])[0])
        assert [p.operation.op for p in compiled.placement] == ["relu", "reshape"]


def test_a_file_is_read_again_for_any_shape_and_rank() -> None:
    graph = Graph()
    x = graph.input(float32(1, 2, 3), "x")
    (y,) = graph.add("RELU", [x], [float32(1, 2, 3)])
    data = graph.build([y])
    model = gpunn.load(data)
    for value in (photo(2, 5, 7), photo(4), np.float32(-2)):
        value = np.asarray(value, np.float32)
        changed = model.reshaped({"x": value.shape})
        assert changed.outputs[0].type.shape == value.shape
        np.testing.assert_array_equal(changed.compile("cpu")(value), litert_run(data, [value])[0])
    with pytest.raises(gpunn.ModelError, match=r"must have shape \[1, 2, 3\]"):
        model.compile("cpu")(photo(2, 5, 7))


def test_fixed_extents_of_a_result_give_way_with_a_warning() -> None:
    """LiteRT resizes such results, too."""
    graph = Graph()
    x = graph.input(float32(1, 4), "x", (-1, 4))
    model = gpunn.load(graph.build(graph.add("RELU", [x], [float32(1, 4)], signatures=[(1, 4)])))
    with pytest.warns(UserWarning, match=r"shape \[1, 4\] in the file, expected \[2, 4\]"):
        other = model.reshaped({"x": (2, 4)})
    value = np.arange(-4, 4, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(other.compile("cpu")(value), np.maximum(value, 0))


def test_operations_added_to_a_file_are_kept() -> None:
    model = gpunn.load(computed_shape())
    (y,) = model.add("neg", [model.outputs[0]])
    model.output(y)
    _, found = model.reshaped({"x": (1, 4, 4, 3)}).compile("cpu")(photo(1, 4, 4))
    np.testing.assert_array_equal(found, -np.maximum(photo(1, 4, 4), 0).reshape(1, 48))


def test_a_comparison_has_one_shape() -> None:
    model, x = averaging_model(), photo(2, 4, 4)
    with pytest.raises(gpunn.ModelError, match=r"compared at shape \[1, 8, 8, 3\], got \[2, 4, 4, 3\]"):
        gpunn.compare(model, [x], backends=["cpu"])
    assert gpunn.compare(model.reshaped({"photo": x.shape}), [x], backends=["cpu"])
