"""The kernels of depthwise_conv2d: strips and rows of pixels, whichever lowering prefers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.kernel import Candidate, Kernel
from gpunn.ops.contraction.depthwise_strip import Strip, axes, strip_of
from gpunn.ops.kernels.window import Window, resolve
from gpunn.types import Array
from tests.ops.contraction.quantized_product import Case
from tests.ops.contraction.test_conv import tolerance
from tests.ops.harness import as_software, check, limit_device, model_of, random, take_body, take_candidate

STRIPS, ROWS = "depthwise_strip", "depthwise_conv2d"
MANY = 1 << 15  # invocations that occupy a large GPU

# Input, filter and attributes: windows of every kind, borders, ends of strips, vectors and single channels.
CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 9, 11, 8), (3, 3, 8), {"padding": "same", "activation": "relu6"}),
    ((1, 36, 5, 4), (3, 3, 4), {"padding": "same"}),
    ((1, 13, 9, 5), (3, 3, 5), {"padding": "same", "stride": (2, 2)}),
    ((1, 12, 10, 4), (3, 3, 12), {"padding": ((0, 2), (3, 1)), "stride": (2, 2), "activation": "tanh"}),
    ((2, 7, 10, 3), (5, 5, 6), {"padding": "same", "activation": "relu"}),
    ((1, 14, 9, 4), (5, 5, 4), {"padding": "valid", "stride": (2, 2)}),
    ((1, 9, 8, 4), (7, 7, 4), {"padding": "same"}),
    ((1, 11, 10, 8), (3, 3, 8), {"padding": "same", "dilation": (2, 3)}),
    ((1, 3, 2, 4), (3, 3, 4), {"padding": "same", "dilation": (4, 3)}),
    ((1, 9, 12, 4), (3, 3, 4), {"padding": "valid", "stride": (2, 4), "dilation": (2, 2)}),
    ((1, 10, 7, 6), (4, 2, 6), {"padding": ((1, 0), (2, 3)), "stride": (3, 1), "dilation": (1, 2)}),
    ((3, 17, 1, 4), (9, 1, 8), {"padding": "same"}),
    ((1, 5, 6, 1), (2, 3, 1), {"padding": "valid", "stride": (1, 3)}),
    ((2, 1, 33, 8), (1, 9, 8), {"padding": "same", "activation": "relu"}),
    ((1, 1, 40, 3), (1, 5, 6), {"padding": ((0, 0), (3, 1)), "stride": (1, 2)}),
    ((1, 1, 50, 4), (1, 3, 4), {"padding": "same", "dilation": (1, 4)}),
    ((1, 1, 8, 4), (1, 3, 4), {"padding": ((1, 1), (1, 1))}),
    ((2, 40, 1, 4), (31, 1, 4), {"padding": "same"}),
)


def operands(shape: tuple[int, ...], filter: tuple[int, ...], bias: bool) -> list[Array]:
    found = [random(1, *shape), random(2, 1, *filter)]
    return [*found, random(3, filter[-1])] if bias else found


def bodies(inputs: list[Array], attrs: dict[str, Any], gpu: str) -> list[str]:
    with model_of("depthwise_conv2d", inputs, attrs, (1, 2)).compile(gpu) as compiled:
        return [row.kernel.body for row in compiled.plan_rows()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_strips_and_rows_agree(case: Any, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They add up in one order, but a GPU's driver may contract products and sums in one alone."""
    shape, filter, attrs = case
    inputs = operands(shape, filter, bias=filter[0] != 5)
    atol = tolerance(inputs[0], inputs[1].reshape(-1, filter[-1]).T)
    contracted = not open_device(None, False).properties.software
    as_software(monkeypatch)  # which is offered strips of all strides, too
    seen = window(shape[1:3], filter[:2], **{name: v for name, v in attrs.items() if name != "activation"})
    if shape[1] == filter[0] == seen.out[0] == 1:
        seen = seen.turned  # strips go down columns
    strips = len({strip_of(seen, 1, shared) for shared in (False, True)} - {None})
    ways, found = [], set()
    for place in range(1 + strips):
        take_candidate(monkeypatch, place)
        ways += bodies(inputs, attrs, gpu)
        (y,) = check("depthwise_conv2d", inputs, attrs, backend=gpu, constants=(1, 2), atol=atol)
        found.add(y.tobytes())
    assert sorted(ways) == [ROWS, *[STRIPS] * strips]
    assert contracted or len(found) == 1


@pytest.mark.parametrize("body", [STRIPS, ROWS])
@pytest.mark.parametrize("software", [True, False])
@pytest.mark.parametrize(
    ("kind", "shape", "filter", "attrs"),
    [
        ("uint8", (2, 9, 11, 8), (1, 3, 3, 8), {"padding": "same", "activation": "relu6"}),
        ("int8 per channel", (1, 11, 9, 5), (1, 3, 3, 5), {"padding": "same", "stride": (2, 2)}),
        ("int8", (1, 9, 7, 4), (1, 5, 5, 8), {"padding": "valid"}),
        ("uint8 x int8", (1, 9, 8, 4), (1, 3, 3, 4), {"padding": "same", "dilation": (2, 2)}),
        ("int8", (1, 1, 40, 4), (1, 1, 7, 4), {"padding": "same"}),
    ],
)
def test_quantised_strips_and_rows(
    kind: str,
    shape: tuple[int, ...],
    filter: tuple[int, ...],
    attrs: dict[str, Any],
    software: bool,
    body: str,
    gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit_device(monkeypatch, software=software)
    take_body(monkeypatch, body)
    case = Case("depthwise_conv2d", kind, shape, filter)
    assert case.body(attrs) == body
    case.check(gpu, attrs)


def test_short_strips_occupy_a_device_of_many_processors(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read once more for each strip, so short ones do not pay."""
    attrs = {"padding": "same"}
    for channels, body in ((8, ROWS), (256, STRIPS)):
        inputs = operands((1, 24, 20, channels), (3, 3, channels), bias=True)
        limit_device(monkeypatch, parallel_invocations=1 << 12)
        assert bodies(inputs, attrs, gpu) == [body]
        check("depthwise_conv2d", inputs, attrs, backend=gpu, constants=(1, 2))


@pytest.mark.parametrize(
    ("size", "stride", "processors", "body"),
    [
        (3, 1, MANY, ROWS),
        (3, 2, MANY, ROWS),
        (5, 1, MANY, STRIPS),
        (5, 2, MANY, STRIPS),
        (7, 1, MANY, ROWS),
        (3, 1, 1 << 12, STRIPS),
    ],
)
def test_which_way_hardware_takes(
    size: int, stride: int, processors: int, body: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invocation's strip is short where many are wanted: for 3 x 3 it reads too much, for 5 x 5 not."""
    limit_device(monkeypatch, software=False, parallel_invocations=processors)
    inputs = operands((1, 28, 28, 96), (size, size, 96), bias=True)
    assert bodies(inputs, {"padding": "same", "stride": (stride, stride)}, gpu) == [body]


def window(spatial: tuple[int, int], size: tuple[int, int], **attrs: Any) -> Window:
    return resolve(spatial, size, **{"stride": (1, 1), "dilation": (1, 1), "padding": "same", **attrs})


@pytest.mark.parametrize(("stride", "dilation"), [((2, 3), (1, 1)), ((1, 1), (3, 2)), ((4, 1), (2, 5))])
@pytest.mark.parametrize(("places", "columns"), [(1, 4), (3, 2), (32, 3)])
def test_strips_cover_each_pixel_once(
    stride: tuple[int, int], dilation: tuple[int, int], places: int, columns: int
) -> None:
    found = axes(window((23, 17), (3, 3), stride=stride, dilation=dilation))
    assert found is not None
    for axis, length in zip(found, (places, columns), strict=True):
        seen = []
        for strip, place in product(range(axis.strips(length)), range(length)):
            group, first = divmod(strip, axis.apart)
            seen.append((group * length + place) * axis.apart + first)
        assert sorted(n for n in seen if n < axis.count) == list(range(axis.count))


def test_windows_that_strips_do_not_suit() -> None:
    assert axes(window((20, 20), (3, 3), stride=(2, 2), dilation=(3, 3))) is None
    assert strip_of(window((20, 20), (3, 3), stride=(2, 2), dilation=(3, 3)), 1) is None
    assert strip_of(window((20, 20), (1, 3)), 1) is None  # no row is read twice
    assert strip_of(window((20, 20), (3, 3), stride=(3, 3)), 1) is None
    assert strip_of(window((20, 20), (8, 7)), 1) is None  # too many taps


def test_a_strip_reads_each_line_once() -> None:
    """Worked by hand: 10 lines of 6 pixels and 9 taps for 8 x 4 results; 5 pairs of lines of 5 for 4 x 2."""
    strip = strip_of(window((8, 16), (3, 3)), 1)
    assert strip is not None
    assert (strip.rows, strip.columns, strip.reads) == (8, 4, (10 * 6 + 9) / 32)
    strip = strip_of(window((8, 16), (3, 3), stride=(2, 2)), 1)
    assert strip is not None
    assert (strip.rows, strip.columns, strip.reads) == (4, 2, (5 * 2 * 5 + 9) / 8)


def test_strips_of_all_strides_share_a_pipeline() -> None:
    """Worked by hand: with a stride of 2, 9 lines of 5 pixels and 9 taps for 4 x 2 results."""
    strides = ((1, 1), (2, 2), (1, 2))
    found = [strip_of(window((8, 16), (3, 3), stride=stride), 1, shared=True) for stride in strides]
    strips = [strip for strip in found if strip is not None]
    assert len({strip.wgsl for strip in strips}) == 1
    assert [(strip.rows, strip.columns) for strip in strips] == [(8, 3), (4, 2), (8, 2)]
    assert strips[1].reads == (9 * 5 + 9) / 8


@pytest.mark.parametrize(("software", "count"), [(True, 1), (False, 2)])
def test_software_devices_compile_one_pipeline_for_all_strides(
    software: bool, count: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_device(monkeypatch, software=software, parallel_invocations=1)
    found = set()
    for stride in ((1, 1), (2, 2)):
        inputs = operands((1, 12, 12, 8), (3, 3, 8), bias=True)
        with model_of("depthwise_conv2d", inputs, {"stride": stride}, (1, 2)).compile(gpu) as compiled:
            (row,) = compiled.plan_rows()
            assert row.kernel is not None
            found.add((row.kernel.generated, *row.kernel.constants.items()))
    assert len(found) == count


@pytest.mark.parametrize(
    ("stride", "ways"), [(1, [False, False]), (2, [True, False, False]), (5, [False, False])]
)
def test_strips_are_measured_where_no_others_are(
    stride: int, ways: list[bool], gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stride of 5 there are no strips but those with the pipeline of all strides."""
    as_software(monkeypatch)
    found: list[list[bool]] = []

    def chosen(candidates: Iterator[Candidate], *_: object) -> Sequence[Kernel]:
        offered = [*candidates]
        found.append([way.quick_to_compile for way in offered])
        return offered[0].kernels

    monkeypatch.setattr("gpunn.backends.webgpu.lower.choose", chosen)
    inputs = operands((1, 33, 33, 8), (7, 7, 8), bias=True)
    assert bodies(inputs, {"stride": (stride, stride)}, gpu) == [STRIPS]
    assert found == [ways]


def test_many_strips_are_short() -> None:
    found = [strip_of(window((64, 64), (3, 3)), strips) for strips in (1, 16, 64, MANY)]
    assert [strip.rows for strip in found if isinstance(strip, Strip)] == [32, 32, 16, 1]
