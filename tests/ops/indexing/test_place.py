"""Reversed sequences, and slices at computed places: results are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE
from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import Array
from tests.ops.harness import check, model_of, random, type_of

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}


SLICES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ((7,), (3,), (2,)),
    ((3, 4), (2, 2), (-5, 9)),
    ((5, 8), (2, 8), (1, 3)),
    ((4, 8, 4), (4, 5, 4), (0, 2, 1)),
    ((4, 8, 4), (1, 8, 4), (3, 0, 0)),
    ((2, 3, 4, 5, 6), (1, 3, 2, 5, 3), (1, 1, 1, 1, 2)),
    ((4, 6), (4, 6), (1, 1)),
    ((4, 6), (0, 6), (3, 0)),
    ((0, 6), (0, 2), (0, 3)),
    ((), (), ()),
]


def typed(seed: int, shape: tuple[int, ...], dtype: Any) -> Array:
    return random(seed, *shape, low=0, high=100).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int16, np.uint8])
@pytest.mark.parametrize(
    ("shape", "axis", "batch_axis"),
    [
        ((4, 5, 3), 1, 0),
        ((4, 5, 3), 0, 1),
        ((4, 5, 8), 1, 0),
        ((2, 3, 4, 5), -3, -1),
        ((5, 2, 4, 3), 2, 0),
        ((3, 0), 1, 0),
        ((0, 3), 1, 0),
    ],
)
def test_reversed_sequences(
    shape: tuple[int, ...], axis: int, batch_axis: int, dtype: Any, backend: str
) -> None:
    x = typed(0, shape, dtype)
    lengths = np.random.default_rng(0).integers(0, x.shape[axis] + 1, x.shape[batch_axis], dtype=np.int32)
    lengths[:1] = x.shape[axis]
    attrs = {"axis": axis, "batch_axis": batch_axis}
    for constants in ((), (1,)):
        (y,) = check("reverse_sequence", [x, lengths], attrs, backend=backend, constants=constants, **EXACT)
    found, given = np.moveaxis(y, (batch_axis, axis), (0, 1)), np.moveaxis(x, (batch_axis, axis), (0, 1))
    for row, original, n in zip(found, given, lengths, strict=True):
        np.testing.assert_array_equal(row, np.concatenate([original[:n][::-1], original[n:]]))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16, np.int16, np.uint8, np.bool_])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((7,), (0,)),
        ((4, 8), (-1,)),
        ((3, 5, 4), (0, 2)),
        ((3, 5, 4), (1, 1, -2)),
        ((3, 5, 4), ()),
        ((2, 3, 1, 4, 5, 2), (5, -6, 3)),
        ((2, 1) * 4 + (3, 2), (0, -1, 4, 8)),
        ((3, 0), (0,)),
        ((), ()),
    ],
)
def test_axes_in_reverse(shape: tuple[int, ...], axes: tuple[int, ...], dtype: Any, backend: str) -> None:
    x = typed(0, shape, dtype)
    for kind, constants in ((np.int32, ()), (np.int64, ()), (np.int32, (1,))):
        inputs = [x, np.array(axes, kind)]
        (y,) = check("reverse", inputs, backend=backend, constants=constants, **EXACT)
        turned = {axis % len(shape) for axis in axes}
        expected = x[tuple(slice(None, None, -1 if d in turned else 1) for d in range(len(shape)))]
        np.testing.assert_array_equal(y, expected)


def test_one_axis_without_a_list(backend: str) -> None:
    x = random(0, 3, 4)
    (y,) = check("reverse", [x, np.array(-1, np.int32)], backend=backend, **EXACT)
    np.testing.assert_array_equal(y, x[:, ::-1])


def test_many_dimensions_are_reversed_on_the_host() -> None:
    x = random(0, *(1,) * 31, 2, 1)
    operation = model_of("reverse", [x, np.array([31], np.int32)], {}).operations[0]
    assert lower(operation, BASELINE) == "33 dimensions, the shader reverses 32"


@pytest.mark.parametrize("axis", [-4, 3, 2**40])
def test_wrong_axes_are_refused(axis: int, backend: str) -> None:
    x, axes = random(0, 2, 3, 4), np.array([0, axis], np.int64)
    with model_of("reverse", [x, axes], {}).compile(backend) as compiled:
        with pytest.raises(ModelError, match=r"reverse: axes must be in -3 \.\.\. 2, got"):
            compiled(x, axes)
        np.testing.assert_array_equal(compiled(x, np.array([0, -2])), x[::-1, ::-1])
    with pytest.raises(
        ModelError, match=r"reverse: the axes must be one number or a list, got int32\[1, 1\]"
    ):
        model_of("reverse", [x, np.zeros((1, 1), np.int32)], {})


@pytest.mark.parametrize("wrong", [-1, 6])
def test_lengths_out_of_range_are_refused(wrong: int, backend: str) -> None:
    x, lengths = random(0, 2, 5), np.array([5, wrong], np.int32)
    message = rf"reverse_sequence: lengths must be in 0 \.\.\. 5, got {wrong}"
    with (
        model_of("reverse_sequence", [x, lengths], {"axis": 1}).compile(backend=backend) as compiled,
        pytest.raises(ModelError, match=message),
    ):
        compiled(x, lengths)


@pytest.mark.parametrize(
    ("attrs", "lengths", "message"),
    [
        ({"axis": 1, "batch_axis": 1}, 5, "axis and batch_axis are both 1"),
        ({"axis": 1, "batch_axis": 2}, 4, "axis 2 is out of range"),
        ({"axis": 1}, 5, "a length for each of 4 sequences"),
    ],
)
def test_reverse_sequence_errors(attrs: dict[str, Any], lengths: int, message: str) -> None:
    with pytest.raises(ModelError, match=f"reverse_sequence: .*{message}"):
        model_of("reverse_sequence", [random(0, 4, 5), np.zeros(lengths, np.int32)], attrs)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int16, np.int8, np.bool_])
@pytest.mark.parametrize(("shape", "update", "starts"), SLICES)
def test_dynamic_update_slice(
    shape: tuple[int, ...], update: tuple[int, ...], starts: tuple[int, ...], dtype: Any, backend: str
) -> None:
    inputs = [typed(0, shape, dtype), typed(1, update, dtype), np.array(starts, np.int32)]
    for constants in ((), (2,)):
        (y,) = check("dynamic_update_slice", inputs, backend=backend, constants=constants, **EXACT)
    expected = inputs[0].copy()
    for at in np.ndindex(update):
        room = [min(max(s, 0), n - m) for s, n, m in zip(starts, shape, update, strict=True)]
        expected[tuple(a + b for a, b in zip(at, room, strict=True))] = inputs[1][at]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int16, np.int8, np.bool_])
@pytest.mark.parametrize(("shape", "sizes", "starts"), SLICES)
def test_dynamic_slice(
    shape: tuple[int, ...], sizes: tuple[int, ...], starts: tuple[int, ...], dtype: Any, backend: str
) -> None:
    x = typed(0, shape, dtype)
    first = [min(max(s, 0), n - m) for s, n, m in zip(starts, shape, sizes, strict=True)]
    expected = x[tuple(slice(a, a + m) for a, m in zip(first, sizes, strict=True))]
    for kind, constants in ((np.int32, ()), (np.int64, ()), (np.int32, (1,))):
        inputs = [x, np.array(starts, kind)]
        (y,) = check("dynamic_slice", inputs, {"sizes": sizes}, backend=backend, constants=constants, **EXACT)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("start", [-5, -1, 0, 3, 4])
def test_dynamic_slices_along_some_axes_and_from_the_end(start: int, backend: str) -> None:
    x, starts = random(0, 3, 5, 8), np.array([77, start, -99], np.int32)
    attrs = {"sizes": (3, 1, 8), "axes": (None, -2, None), "clip": False, "negative": True}
    (y,) = check("dynamic_slice", [x, starts], attrs, backend=backend, **EXACT)
    np.testing.assert_array_equal(y[:, 0], x[:, start])


@pytest.mark.parametrize(
    ("start", "negative"), [(-1, False), (4, False), (-6, True), (-1, True), (4, True), (-(2**62), True)]
)
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("more", [(), (None,) * 20])
def test_slices_out_of_range_are_errors_without_clip(
    start: int, negative: bool, computed: bool, more: tuple[None, ...], backend: str
) -> None:
    """With many starts, and those that the device computes, other code looks for wrong ones."""
    x, starts = random(0, 5, 2), np.array([start, 0, *(9 for _ in more)], np.int64)
    attrs = {"sizes": (2, 2), "axes": (0, 1, *more), "clip": False, "negative": negative}
    model = Model()
    given = model.input("starts", type_of(starts))
    if computed:
        (given,) = model.add("neg", [given])
        starts = -starts
    model.output(*model.add("dynamic_slice", [model.input("x", type_of(x)), given], attrs))
    allowed = r"-5 \.\.\. -2 or 0 \.\.\. 3" if negative else r"0 \.\.\. 3"
    message = f"dynamic_slice: starts must be in {allowed}, got {start}"
    with model.compile(backend=backend) as compiled, pytest.raises(ModelError, match=message):
        compiled(starts, x)


@pytest.mark.parametrize("start", [-5, -3, -2, 0, 2, 3])
@pytest.mark.parametrize("more", [(), (None,) * 20])
def test_slices_from_the_end_fit_without_clip(start: int, more: tuple[None, ...], backend: str) -> None:
    x, starts = random(0, 5, 2), np.array([start, 0, *(9 for _ in more)], np.int32)
    attrs = {"sizes": (2, 2), "axes": (0, 1, *more), "clip": False, "negative": True}
    (y,) = check("dynamic_slice", [x, starts], attrs, backend=backend, **EXACT)
    first = start % 5
    np.testing.assert_array_equal(y, x[first : first + 2])


@pytest.mark.parametrize(
    ("attrs", "starts", "message"),
    [
        ({"sizes": (3, 1)}, 2, "does not fit"),
        ({"sizes": (-1, 1)}, 2, "does not fit"),
        ({"sizes": (1,)}, 1, "sizes must have 2 entries"),
        ({"sizes": (1, 1)}, 1, "a start for each"),
        ({"sizes": (1, 1), "axes": (0,)}, 1, "needs a start for each axis"),
        ({"sizes": (1, 1), "axes": (0, -2)}, 2, "axes must be different"),
        ({"sizes": (1, 1), "axes": (0, 2)}, 2, "axis 2 is out of range"),
        ({"sizes": (1, 1), "clip": 1}, 2, "clip must be True or False"),
    ],
)
def test_dynamic_slice_errors(attrs: dict[str, Any], starts: int, message: str) -> None:
    with pytest.raises(ModelError, match=f"dynamic_slice: .*{message}"):
        model_of("dynamic_slice", [random(0, 2, 2), np.zeros(starts, np.int32)], attrs)


def test_one_program_for_any_number_of_starts(backend: str) -> None:
    x = random(0, 24, 6)
    model = model_of("dynamic_slice", [x, np.zeros(2, np.int32)], {"sizes": (3, 4)})
    with model.compile(backend=backend) as compiled:
        compiled(x, np.zeros(2, np.int32))
        before = compiled.stats
        made = before.programs, before.pipelines, before.buffers, before.bind_groups
        for start in range(20):
            np.testing.assert_array_equal(
                compiled(x, np.array([start, 1], np.int32)), x[start : start + 3, 1:5]
            )
        after = compiled.stats
        assert (after.programs, after.pipelines, after.buffers, after.bind_groups) == made


@pytest.mark.parametrize(
    ("update", "starts", "message"),
    [
        ((2,), (2,), "the type and rank of"),
        ((3, 1), (2,), "does not fit"),
        ((1, 1), (1,), "a start for each"),
    ],
)
def test_dynamic_update_slice_errors(update: tuple[int, ...], starts: tuple[int, ...], message: str) -> None:
    inputs = [random(0, 2, 2), random(0, *update), np.zeros(starts, np.int32)]
    with pytest.raises(ModelError, match=f"dynamic_update_slice: .*{message}"):
        model_of("dynamic_update_slice", inputs, {})
