"""Layers that resample images, and parameters that no stored case has, against numbers of numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.types import Array
from tests.importers.coreml.builder import Message, floats, layer, model
from tests.ops.harness import random
from tests.ops.vision.test_crop import points

IMAGES = (1, 2, 3, 7, 9)
# Top, left, bottom, right, in pixels; the second is upside down.
CORNERS = np.array([[1, 2, 5, 6.5], [4, 3, 0.5, 7], [0, 0, 6, 8]], np.float32)


def compiled(made: Message, inputs: Mapping[str, Array], backend: str) -> Array:
    """What a specification gives for inputs by name."""
    with gpunn.load(made.SerializeToString()).compile(backend) as compilation:
        (found,) = compilation.run(dict(inputs)).values()
    return found


def crop_model(roi: Array, size: tuple[int, int], sampling: int, mode: int) -> Message:
    made = model(IMAGES, exact=True)
    made.description.input.add(name="roi").type.multiArrayType.shape.extend(roi.shape)
    params = layer(made, "cropResize", ["x", "roi"])
    params.targetSize.extend(size)
    params.mode.samplingMethod = sampling
    params.boxIndicesMode.boxMode = mode
    return made


def ramps() -> Array:
    """Images whose values at any point are known: see plane()."""
    rows, columns = np.meshgrid(np.arange(7.0), np.arange(9.0), indexing="ij")
    ramp = 10 * rows + columns
    return np.stack([k * 100 + ramp for k in range(6)]).reshape(IMAGES).astype(np.float32)


def plane(number: int, box: Sequence[float], size: tuple[int, int], sampling: str) -> Array:
    """What a crop of channel `number` is, of all channels of all images."""
    down, across = (points(box[k], box[k + 2], size[k], sampling) for k in range(2))
    return np.asarray(number * 100 + 10 * down[:, None] + across)


def in_mode(corners: Array, mode: int) -> Array:
    """Boxes as BoxCoordinatesMode describes them."""
    start, end = corners[:, :2], corners[:, 2:]
    if mode >= 2:
        start, end = (start + end) / 2, end - start
    if mode % 2:
        start, end = start[:, ::-1], end[:, ::-1]
    return np.concatenate([start, end], axis=1)


@pytest.mark.sample(2)
@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("sampling", range(4))
def test_crops_by_all_conventions(sampling: int, mode: int, backend: str) -> None:
    name = ("strict_align_endpoints", "align_endpoints", "upsample", "roi_align")[sampling]
    for size in ((3, 4), (1, 5), (2, 1)):
        for normalized, scale in ((False, 0.0), (False, 0.5), (True, 1.0)):
            boxes = in_mode(CORNERS / (np.float32([6, 8, 6, 8]) if normalized else scale or 1), mode)
            roi = boxes.reshape(3, 1, 4, 1, 1).astype(np.float32)
            made = crop_model(roi, size, sampling, mode)
            made.neuralNetwork.layers[0].cropResize.normalizedCoordinates = normalized
            made.neuralNetwork.layers[0].cropResize.spatialScale = scale
            y = compiled(made, {"x": ramps(), "roi": roi}, backend)
            assert y.shape == (3, 2, 3, *size)
            for n, batch, channel in np.ndindex(3, 2, 3):
                expected = plane(3 * batch + channel, CORNERS[n].tolist(), size, name)
                np.testing.assert_allclose(y[n, batch, channel], expected, rtol=1e-5)


def test_crops_of_the_image_before_the_box(backend: str) -> None:
    roi = np.concatenate([np.float32([[1], [0], [1]]), CORNERS], axis=1).reshape(3, 1, 5, 1, 1)
    made = crop_model(roi, (3, 4), 0, 0)
    y = compiled(made, {"x": ramps(), "roi": roi}, backend)
    assert y.shape == (3, 1, 3, 3, 4)
    for n, channel in np.ndindex(3, 3):
        expected = plane(3 * (1, 0, 1)[n] + channel, CORNERS[n].tolist(), (3, 4), "strict_align_endpoints")
        np.testing.assert_allclose(y[n, 0, channel], expected, rtol=1e-5)
    roi[2, 0, 0] = 2
    with pytest.raises(gpunn.ModelError, match=r"images must be in 0 \.\.\. 1, got 2"):
        compiled(made, {"x": ramps(), "roi": roi}, backend)


def test_points_outside_the_image_equal_the_border(backend: str) -> None:
    roi = np.float32([-2, -4, 10, 12]).reshape(1, 1, 4, 1, 1)
    y = compiled(crop_model(roi, (5, 3), 0, 0), {"x": ramps(), "roi": roi}, backend)
    expected = 10 * np.float32([0, 1, 4, 6, 6])[:, None] + np.float32([0, 4, 8])
    np.testing.assert_allclose(y[0, 0, 0], expected, rtol=1e-5)


def test_crops_that_contradict_the_format() -> None:
    for shape in ((3, 1, 6, 1, 1), (3, 4), (1, 3, 4, 1, 1)):
        made = crop_model(np.zeros(shape), (2, 2), 0, 0)
        with pytest.raises(gpunn.FormatError, match=r"expected \[N, 1, 4, 1, 1\] or \[N, 1, 5, 1, 1\]"):
            gpunn.load(made.SerializeToString())
    for sampling, mode, message in ((4, 0, "sampling method 4"), (0, 4, "box mode 4")):
        made = crop_model(np.zeros((3, 1, 4, 1, 1)), (2, 2), sampling, mode)
        with pytest.raises(gpunn.UnsupportedError, match=f"its {message} is not in the format's document"):
            gpunn.load(made.SerializeToString())


@pytest.mark.parametrize("sampling", range(4))
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (1, 4), (14, 1)])
def test_resizing_by_all_methods(sampling: int, size: tuple[int, int], backend: str) -> None:
    made = model((2, 3, 7, 9), exact=True)
    params = layer(made, "resizeBilinear")
    params.targetSize.extend(size)
    params.mode.samplingMethod = sampling
    y = compiled(made, {"x": ramps().reshape(2, 3, 7, 9)}, backend)
    name = ("strict_align_endpoints", "align_endpoints", "upsample", "roi_align")[sampling]
    for batch, channel in np.ndindex(2, 3):
        expected = plane(3 * batch + channel, (0, 0, 6, 8), size, name)
        np.testing.assert_allclose(y[batch, channel], expected, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6])
def test_windows_of_neighbouring_channels(size: int, backend: str) -> None:
    """Channel k sees size // 2 channels before it and (size - 1) // 2 after it."""
    made = model((2, 5, 3, 4), exact=True)
    params = layer(made, "lrn")
    params.alpha, params.beta, params.localSize, params.k = 0.6, 0.75, size, 2
    x = random(0, 2, 5, 3, 4)
    y = compiled(made, {"x": x}, backend)
    for k in range(5):
        near = x[:, max(0, k - size // 2) : k + (size - 1) // 2 + 1]
        expected = x[:, k] / (2 + 0.6 / size * np.square(near).sum(axis=1)) ** 0.75
        np.testing.assert_allclose(y[:, k], expected, rtol=1e-5, atol=1e-6)


def test_a_window_of_no_channels_is_refused() -> None:
    made = model((2, 5, 3, 4), exact=True)
    layer(made, "lrn").alpha = 1
    with pytest.raises(gpunn.FormatError, match="localSize must be 1 to"):
        gpunn.load(made.SerializeToString())


def volume_model(weights: Array, bias: Array | None, **params: Any) -> Message:
    """A specification with one convolution3d, of an input [2, 4, 3, 4, 5]."""
    made = model((2, 4, 3, 4, 5), exact=True)
    message = layer(made, "convolution3d")
    message.inputChannels = 4
    message.weights.floatValue.append(floats(weights))
    for axis, n in zip(("Depth", "Height", "Width"), weights.shape[2:], strict=True):
        setattr(message, f"kernel{axis}", n)
    if bias is not None:
        message.hasBias = True
        message.bias.floatValue.append(floats(bias))
    message.outputShape.extend(params.pop("outputShape", ()))
    for name, value in params.items():
        setattr(message, name, value)
    return made


def test_grouped_convolution_of_volumes(backend: str) -> None:
    """Each output channel, cell by cell, sees the two input channels of its group."""
    x, weights, bias = random(0, 2, 4, 3, 4, 5), random(1, 6, 2, 2, 1, 3), random(2, 6)
    made = volume_model(weights, bias, outputChannels=6, nGroups=2, paddingType=1)
    y = compiled(made, {"x": x}, backend)
    assert y.shape == (2, 6, 2, 4, 3)
    for n, o, d, h, w in np.ndindex(y.shape):
        seen = x[n, o // 3 * 2 : o // 3 * 2 + 2, d : d + 2, h : h + 1, w : w + 3]
        assert abs(np.sum(weights[o] * seen) + bias[o] - y[n, o, d, h, w]) < 1e-4


SPREADS: tuple[tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]], ...] = (
    # parameters, extents of the result, and how many cells are cut off at the start
    ({"paddingType": 1}, (6, 10, 7), (0, 0, 0)),
    ({"customPaddingFront": 1, "customPaddingBottom": 2, "customPaddingRight": 1}, (5, 8, 6), (1, 0, 0)),
    ({"paddingType": 2}, (6, 8, 5), (0, 1, 1)),
    ({"outputShape": (5, 9, 6), "paddingType": 1}, (5, 9, 6), (0, 0, 0)),
    ({"outputShape": (8, 11, 4)}, (8, 11, 4), (0, 0, 1)),
)


@pytest.mark.parametrize(("params", "size", "starts"), SPREADS)
@pytest.mark.parametrize("groups", [1, 2])
def test_deconvolution_of_volumes(
    params: dict[str, Any], size: tuple[int, ...], starts: tuple[int, ...], groups: int, backend: str
) -> None:
    """Every element adds the filter at its place; strides 2, 2, 1 and a filter that is dilated in height."""
    x, weights, bias = random(0, 2, 4, 3, 4, 5), random(1, 4, 6 // groups, 2, 2, 3), random(2, 6)
    strides = {"strideDepth": 2, "strideHeight": 2, "dilationHeight": 3}
    made = volume_model(
        weights, bias, outputChannels=6, nGroups=groups, isDeconvolution=True, **strides, **params
    )
    y = compiled(made, {"x": x}, backend)
    whole = np.zeros((2, 6, 20, 20, 20))
    per, rows = 4 // groups, 6 // groups
    for c, d, h, w in np.ndindex(4, 3, 4, 5):
        own = slice(c // per * rows, (c // per + 1) * rows)
        place = whole[:, own, 2 * d : 2 * d + 2, 2 * h : 2 * h + 4 : 3, w : w + 3]
        place += x[:, c, d, h, w][:, None, None, None, None] * weights[c]
    expected = whole[(..., *(slice(a, a + n) for a, n in zip(starts, size, strict=True)))]
    np.testing.assert_allclose(y, expected + bias.reshape(-1, 1, 1, 1), atol=1e-4)


def test_volumes_that_contradict_the_format() -> None:
    weights = random(1, 6, 2, 2, 1, 3)
    for params, message in (
        ({"outputChannels": 6, "nGroups": 3}, "4 and 6 channels cannot be divided into 3 groups"),
        ({"outputChannels": 6, "nGroups": -1}, "into -1 groups"),
        (
            {"outputChannels": 3, "isDeconvolution": True, "outputShape": (2**40, 1, 1)},
            "does not come of",
        ),
        ({"outputChannels": 3, "isDeconvolution": True, "outputShape": (1, 1)}, "outputShape has 2 entries"),
        ({"outputChannels": 3, "isDeconvolution": True, "outputShape": (0, 1, 1)}, "does not come of"),
    ):
        made = volume_model(weights, None, **params)
        with pytest.raises(gpunn.FormatError, match=message):
            gpunn.load(made.SerializeToString())


def suppression_model(inputs: Mapping[str, Array], outputs: Sequence[str] = ("y", "s", "n", "c")) -> Message:
    """A specification with a NonMaximumSuppression of some inputs."""
    made = model(inputs["x"].shape, exact=True)
    for name, value in inputs.items():
        if name != "x":
            made.description.input.add(name=name).type.multiArrayType.shape.extend(value.shape)
    for name in outputs[1:]:
        made.description.output.add(name=name).type.multiArrayType.dataType = 65568
    layer(made, "NonMaximumSuppression", list(inputs), outputs)
    return made


def test_boxes_of_a_batch_and_what_is_left_over(backend: str) -> None:
    """Squares of side 2 with the centres 0, 1 and 5: the first two share 1/3. Inputs win over parameters."""
    centres = np.array([[[0, 0], [1, 0], [5, 0]], [[5, 5], [0, 0], [1, 0]]], np.float32)
    boxes = np.concatenate([centres, np.full((2, 3, 2), 2, np.float32)], axis=2)
    scores = np.array([[[0.5, 1], [0.9, 0.1], [0.4, 0.8]], [[0.1, 0.1], [0.2, 0], [0, 0.3]]], np.float32)
    given = {"x": boxes, "scores": scores, "iou": np.float32([0.3]), "least": np.float32([0.5])}
    for per_class, stays in ((False, [0, 2]), (True, [0, 1, 2])):
        for maximum in (2, 4):
            made = suppression_model(given | {"most": np.float32([maximum])})
            params = made.neuralNetwork.layers[0].NonMaximumSuppression
            params.iouThreshold, params.scoreThreshold, params.maxBoxes = 0.9, 9, 7
            params.perClassSuppression = per_class
            with gpunn.load(made.SerializeToString()).compile(backend) as compilation:
                found = compilation.run(given | {"most": np.float32([maximum])})
            kept = [stays[:maximum], [2]]  # no score of the second image is good enough: the best box
            assert found["c"].tolist() == [len(numbers) for numbers in kept]
            for image, numbers in enumerate(kept):
                left = maximum - len(numbers)
                assert found["n"][image].tolist() == numbers + [-1] * left
                zeros = np.zeros((left, 4), np.float32)
                expected = np.concatenate([boxes[image, numbers], zeros])
                np.testing.assert_array_equal(found["y"][image], expected)
                expected = np.concatenate([scores[image, numbers], zeros[:, :2]])
                np.testing.assert_array_equal(found["s"][image], expected)


def test_boxes_by_parameters_alone(backend: str) -> None:
    boxes = np.array([[[0, 0, 2, 2], [1, 0, 2, 2], [5, 0, 2, 2]]], np.float32)
    given = {"x": boxes, "scores": np.float32([[[3], [2], [1]]])}
    for iou, least, expected in ((0.3, 0, [0, 2]), (0.4, 0, [0, 1, 2]), (0.4, 1.5, [0, 1])):
        made = suppression_model(given)
        params = made.neuralNetwork.layers[0].NonMaximumSuppression
        params.iouThreshold, params.scoreThreshold, params.maxBoxes = iou, least, 3
        with gpunn.load(made.SerializeToString()).compile(backend) as compilation:
            found = compilation.run(given)
        assert found["n"][0].tolist() == expected + [-1] * (3 - len(expected))


def test_boxes_that_contradict_the_format() -> None:
    boxes, scores = np.zeros((1, 3, 4)), np.zeros((1, 3, 1))
    for inputs, message in (
        ({"x": boxes}, "expected 2 to 5 inputs, got 1"),
        ({"x": np.zeros((3, 4)), "scores": scores}, r"boxes have shape \[3, 4\], expected \[B, N, 4\]"),
    ):
        with pytest.raises(gpunn.FormatError, match=message):
            gpunn.load(suppression_model(inputs).SerializeToString())
    with pytest.raises(gpunn.FormatError, match="expected 4 outputs, got 2"):
        gpunn.load(suppression_model({"x": boxes, "scores": scores}, ("y", "s")).SerializeToString())


DECONVOLUTIONS: tuple[tuple[dict[str, Any], tuple[int, int], tuple[int, int]], ...] = (
    # parameters, extents of the result, and how many pixels are cut off at the start
    ({}, (10, 7), (0, 0)),
    ({"same": 0}, (8, 5), (1, 1)),
    ({"same": 1}, (8, 5), (1, 1)),
    ({"outputShape": (9, 4), "same": 1}, (9, 4), (1, 2)),
    ({"outputShape": (11, 9)}, (11, 9), (0, 0)),
)


@pytest.mark.parametrize(("params", "size", "starts"), DECONVOLUTIONS)
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_deconvolution_of_groups(
    params: dict[str, Any], size: tuple[int, int], starts: tuple[int, int], groups: int, backend: str
) -> None:
    """Strides 2 and 1, a filter that is dilated in height; more groups than a stride has pixels, too."""
    x, weights, bias = random(0, 2, 6, 4, 5), random(1, 6, 12 // groups, 2, 3), random(2, 12)
    made = model((2, 6, 4, 5), exact=True)
    message = layer(made, "convolution")
    message.outputChannels, message.kernelChannels, message.nGroups = 12, 6, groups
    message.isDeconvolution = message.hasBias = True
    message.kernelSize.extend(weights.shape[2:])
    message.stride.extend([2, 1])
    message.dilationFactor.extend([3, 1])
    message.weights.floatValue.append(floats(weights))
    message.bias.floatValue.append(floats(bias))
    message.outputShape.extend(params.get("outputShape", ()))
    if "same" in params:
        message.same.asymmetryMode = params["same"]
    y = compiled(made, {"x": x}, backend)
    whole = np.zeros((2, 12, 20, 20))
    per, rows = 6 // groups, 12 // groups
    for c, h, w in np.ndindex(6, 4, 5):
        own = slice(c // per * rows, (c // per + 1) * rows)
        place = whole[:, own, 2 * h : 2 * h + 4 : 3, w : w + 3]
        place += x[:, c, h, w][:, None, None, None] * weights[c]
    expected = whole[:, :, starts[0] : starts[0] + size[0], starts[1] : starts[1] + size[1]]
    np.testing.assert_allclose(y, expected + bias.reshape(-1, 1, 1), atol=1e-4)


@pytest.mark.parametrize("instance", [False, True])
def test_batch_normalisation_by_computed_statistics(instance: bool, backend: str) -> None:
    """Over each image, or over the whole batch, which all axes before the channels are."""
    made = model((2, 3, 4, 5, 6), exact=True)
    params = layer(made, "batchnorm")
    params.channels, params.epsilon = 4, 0.01
    params.computeMeanVar, params.instanceNormalization = True, instance
    gamma, beta, x = random(0, 4), random(1, 4), random(2, 2, 3, 4, 5, 6)
    params.gamma.floatValue.append(floats(gamma))
    params.beta.floatValue.append(floats(beta))
    y = compiled(made, {"x": x}, backend)
    wide, axes = x.astype(np.float64), (3, 4) if instance else (0, 1, 3, 4)
    mean, variance = (f(wide, axis=axes, keepdims=True) for f in (np.mean, np.var))
    expected = (wide - mean) / np.sqrt(variance + 0.01) * gamma.reshape(-1, 1, 1) + beta.reshape(-1, 1, 1)
    np.testing.assert_allclose(y, expected, atol=1e-5)
