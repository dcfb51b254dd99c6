"""Running sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import DType, Quantization, TensorType
from tests.ops.harness import ATOL, EPS, check, check_litert, limit_device, model_of, random, type_of

MODES = [{}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}]
modes = pytest.mark.parametrize("mode", MODES, ids=str)


@modes
def test_cumsum(mode: dict[str, bool], backend: str) -> None:
    for seed, shape in enumerate(((1,), (9,), (3, 70), (2, 5, 7, 3), (0, 3), (3, 0))):
        for axis in range(-len(shape), len(shape)):
            x = random(seed, *shape)
            total = np.sum(np.abs(x.astype(np.float64)), axis=axis, keepdims=True)
            atol = np.asarray(ATOL + shape[axis] * EPS * total)
            (y,) = check("cumsum", [x], {"axis": axis, **mode}, backend=backend, atol=atol)
            for along, constants in ((np.int32(axis), ()), (np.int64([axis]), ()), (np.int32(axis), (1,))):
                inputs = [x, np.asarray(along)]
                (same,) = check("cumsum", inputs, mode, backend=backend, atol=atol, constants=constants)
                np.testing.assert_array_equal(same, y)


@modes
@pytest.mark.parametrize("shape", [(1024,), (5003,), (1, 1030, 2), (2, 4000)], ids=str)
def test_long_rows_are_divided_into_blocks(
    shape: tuple[int, ...], mode: dict[str, bool], gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    axis = int(np.argmax(shape))
    x = random(1, *shape)
    atol = np.asarray(ATOL + shape[axis] * EPS * np.abs(x.astype(np.float64)).sum(axis, keepdims=True))
    whole = np.random.default_rng(0).integers(-(2**31), 2**31, shape, dtype=np.int32)
    for limits in ({}, {"parallel_invocations": 1 << 15}, {"max_loop_iterations": 100}):
        with monkeypatch.context() as patch:
            limit_device(patch, **limits)
            with model_of("cumsum", [x], {"axis": axis, **mode}).compile(gpu) as compiled:
                bodies = [row.kernel.body for row in compiled.plan_rows()]
            assert bodies == ["block_sums", "cumsum", "cumsum_blocks"]
            check("cumsum", [x], {"axis": axis, **mode}, backend=gpu, atol=atol)
            check("cumsum", [whole], {"axis": axis, **mode}, backend=gpu)
            check("cumsum", [whole.astype(np.int64) << 31], {"axis": axis, **mode}, backend=gpu)


def test_blocks_before_an_infinity_stay_finite(gpu: str) -> None:
    x = np.ones(2000, np.float32)
    x[700], x[1500] = np.inf, np.nan
    check("cumsum", [x], {"axis": 0}, backend=gpu)


@modes
def test_integers(mode: dict[str, bool], backend: str) -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 20), dtype=np.int32)
    check("cumsum", [x], {"axis": 1, **mode}, backend=backend)
    large = x.astype(np.int64) << 31
    for axis in range(2):
        check("cumsum", [large], {"axis": axis, **mode}, backend=backend)
        check("cumsum", [large, np.array([axis - 2])], mode, backend=backend)


@modes
def test_agrees_with_litert(mode: dict[str, bool]) -> None:
    for x in (random(0, 2, 3, 4), np.arange(24, dtype=np.int32).reshape(2, 3, 4)):
        for axis in (0, 1, -1):
            operands = [np.array(axis, np.int32)]
            check_litert("cumsum", [x], {"axis": axis, **mode}, "CUMSUM", mode, operands=operands)


def test_half_and_quantised_numbers(backend: str) -> None:
    """An axis that is a value gives the same as one that is an attribute."""
    half = random(0, 3, 5).astype(np.float16)
    stored = TensorType(DType.INT8, (3, 5), Quantization((0.25,), (3,)))
    for type, x in ((type_of(half), half), (stored, np.arange(15, dtype=np.int8).reshape(3, 5))):
        results = []
        for given in ([], [np.array(-2, np.int32)]):
            model = Model("sums")
            inputs = [model.input("x", type), *(model.input("axis", type_of(v)) for v in given)]
            model.output(*model.add("cumsum", inputs, {} if given else {"axis": 0}))
            with model.compile(backend) as compiled:
                results.append(compiled(x, *given))
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("axis", [-3, 2, -(2**31), 2**31 - 1])
def test_an_axis_out_of_range_is_refused(axis: int, backend: str) -> None:
    x, along = random(0, 2, 3), np.array(axis, np.int32)
    message = rf"cumsum: the axis must be in -2 \.\.\. 1, got {axis}"
    with model_of("cumsum", [x, along], {}).compile(backend) as compiled:
        with pytest.raises(ModelError, match=message):
            compiled(x, along)
        np.testing.assert_allclose(compiled(x, np.array(1, np.int32)), np.cumsum(x, 1), atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "attrs", "message"),
    [
        ([np.array([0, 1])], {}, r"must be one number, an operand or an attribute, got int64\[2\], None"),
        ([np.array(0)], {"axis": 0}, r"must be one number, an operand or an attribute, got int64\[\], 0"),
        ([np.float32(0)], {}, "input 1 must be int32 or int64"),
    ],
)
def test_wrong_operands_for_an_axis(inputs: list[Any], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"cumsum: .*{message}"):
        model_of("cumsum", [random(0, 2, 3), *map(np.asarray, inputs)], attrs)
    with pytest.raises(ModelError, match="cumsum: there is no axis in float32"):
        model_of("cumsum", [random(0), np.array(0)], {})


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"axis": 2}, "axis 2 is out of range for rank 2"),
        ({"axis": 0, "reverse": 1}, "reverse must be True or False"),
        ({}, "needs attribute axis"),
    ],
)
def test_errors(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"cumsum: {message}"):
        model_of("cumsum", [random(0, 2, 3)], attrs)


@modes
@pytest.mark.parametrize("limit", [1, 8, 35])
def test_long_rows_in_parts(
    mode: dict[str, bool], limit: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device whose loops go round only a few times gives the same bits: the order of the terms stays."""
    cases = [random(0, 3, 70, 2), np.arange(420).reshape(3, 70, 2) << 40, np.full((3, 70, 2), 7, np.int32)]
    cases.append(random(1, 3, 70, 2).astype(np.float16))
    attrs = {"axis": 1, **mode}
    for x in cases:
        model = model_of("cumsum", [x], attrs)
        with model.compile(backend) as compiled:
            whole = compiled(x)
        with monkeypatch.context() as patch:
            limit_device(patch, max_loop_iterations=limit)
            with model.compile(backend) as compiled:
                assert {p.backend for p in compiled.placement} == {backend}
                np.testing.assert_array_equal(compiled(x), whole)
            if x.dtype != np.float16:
                check("cumsum", [x], attrs, backend=backend, atol=70 * 4 * 70 * EPS)
