"""Parameters as constants of shaders: their bits, the results, and where they are taken."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu.shader import generate, key_of
from gpunn.compilation import assembly
from gpunn.custom import Call, Kernel, Read, op
from gpunn.kernel import Param
from gpunn.planning import inline as inlining
from gpunn.planning.inline import inline
from gpunn.planning.partition import DEVICE, Placement
from gpunn.types import Array, DType, TensorType, float32
from tests.planning.appending import add, constant, is_software, ran

SUSTAINED = gpunn.Preference.SUSTAINED_SPEED
PACKAGED = Path(gpunn.__file__).parent / "data" / "cifar10_mobilenet.tflite"
WORDS = 10  # that numbers.wgsl writes
LARGEST = float(np.finfo(np.float32).max)
PARAMS: dict[str, Param] = {}  # of the next kernel


def _kernel(call: Call) -> Kernel:
    body = str(Path(__file__).parent / "numbers.wgsl")
    return Kernel(body=body, threads=(1, 1, 1), reads=(Read("x", None),), params=PARAMS, inlined=True)


@op(lambda call: (TensorType(DType.INT32, (WORDS,)),), _kernel)
def words_of_parameters(x: Array) -> Array:
    """Return what the kernel shall write."""
    raise NotImplementedError


@pytest.mark.parametrize(
    "params",
    [
        {"count": 0, "real": 0.1, "many": (-1, 2, -3, 4), "point": 1 - 2j, "words": (1, 2)},
        {
            "count": 2**32 - 1,
            "real": -LARGEST,
            "many": (-(2**31), 2**31 - 1, 0, 1 - 2**31),
            "point": complex(LARGEST, -(2.0**-126)),
            "words": (2**32 - 1, 2**31),
        },
        {"count": 1, "real": 1 / 3, "many": (0, 0, 0, 0), "point": 1j, "words": (0, 0)},
        {"count": 1, "real": math.inf, "many": (0, 0, 0, 0), "point": 1 + 1j, "words": (0, 0)},
        {"count": 1, "real": 1e39, "many": (0, 0, 0, 0), "point": 1 + 1j, "words": (0, 0)},
        {"count": 1, "real": 1.0, "many": (0, 0, 0, 0), "point": complex(1, math.nan), "words": (0, 0)},
    ],
)
def test_bits_of_parameters(gpu: str, params: Mapping[str, Param], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in params.items():
        monkeypatch.setitem(PARAMS, name, value)
    model = gpunn.Model("words")
    model.output(add(model, words_of_parameters, model.input("x", float32(1))))
    (found,), _ = ran(model, [np.zeros(1, np.float32)])
    number: Any = params
    with np.errstate(over="ignore"):
        reals = np.array([number["real"], number["point"].real, number["point"].imag]).astype(np.float32)
    real, *point = reals.view(np.uint32).tolist()
    expected = [number["count"], real, *number["many"], *point, *number["words"]]
    np.testing.assert_array_equal(found, np.array(expected, np.int64).astype(np.int32))


@pytest.mark.parametrize(
    ("value", "dtype", "constant"),
    [
        (7, DType.FLOAT32, True),
        (7, DType.INT8, True),
        (0.5, DType.FLOAT32, True),
        (1 + 0.5j, DType.FLOAT32, True),
        (0.5, DType.INT8, False),
        (0.0, DType.FLOAT32, False),
        (1e-60, DType.FLOAT32, False),
        (0.5j, DType.FLOAT32, False),
        (-math.inf, DType.FLOAT32, False),
        (1e39, DType.FLOAT32, False),
        (math.nan, DType.FLOAT32, False),
    ],
)
def test_what_becomes_constants(value: Param, dtype: DType, constant: bool) -> None:
    """Compilers may combine real numbers, make 0 of x * 0, and know no infinities."""
    model = gpunn.Model("one")
    model.output(add(model, "transpose", model.input("x", TensorType(dtype, (4,))), perm=(0,)))
    kernel = Kernel(
        body="unary",
        threads=(1, 1, 1),
        reads=(Read("x", 0),),
        params={"count": 4, "value": value},
        inlined=True,
    )
    key = key_of(kernel, model.operations[0])
    assert key.bound_params != constant
    assert ("var<uniform> p" in generate(key)) != constant


@pytest.fixture
def all_inlined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile kernels with their parameters as constants, whatever the preference."""
    placed = assembly.placed_on_gpu

    def inlined(*given: Any) -> Any:
        placements, joined = placed(*given)
        return inline(placements, every=True), joined

    monkeypatch.setattr(assembly, "placed_on_gpu", inlined)


@pytest.mark.parametrize("loops", [False, True])
def test_results_are_those_of_parameters_in_a_buffer(
    gpu: str, loops: bool, request: pytest.FixtureRequest
) -> None:
    model = _counting() if loops else gpunn.load(PACKAGED)
    inputs = [np.random.default_rng(0).standard_normal(i.type.shape).astype(np.float32) for i in model.inputs]
    expected, _ = ran(model, inputs)
    request.getfixturevalue("all_inlined")
    with model.compile(gpu) as compiled:
        found = compiled(*inputs)
        assert all(row.kernel.inlined for row in compiled.plan_rows())
        few = len(compiled.plan_rows())
        assert compiled.stats.pipelines <= few
    if is_software():
        np.testing.assert_array_equal(found, expected[0])
    else:  # a driver may contract products and sums otherwise
        np.testing.assert_allclose(found, expected[0], rtol=2**-12, atol=2**-12)


def _counting() -> gpunn.Model:
    """Return a model of a loop over products, too large for one workgroup: each round has dispatches."""
    model, condition, body = gpunn.Model("loop"), gpunn.Model("condition"), gpunn.Model("body")
    types = TensorType(DType.INT32, ()), float32(64, 300)
    of_condition, _ = (condition.input(name, type) for name, type in zip("ky", types, strict=True))
    five = condition.constant("five", np.int32(5))
    condition.output(add(condition, "less", of_condition, five))
    k, y = (body.input(name, type) for name, type in zip("ky", types, strict=True))
    more = add(body, "add", k, body.constant("one", np.int32(1)))
    body.output(more, add(body, "tanh", add(body, "fully_connected", y, constant(body, 300, 300))))
    start = model.constant("start", np.int32(0)), model.input("x", types[1])
    model.output(model.add("while_loop", start, {"condition": condition, "body": body})[1])
    return model


def test_software_has_constants_in_large_copies_for_sustained_speed(gpu: str) -> None:
    if not is_software():
        pytest.skip("the adapter is hardware")
    model = gpunn.Model("copies")
    for name, shape in (("large", (6, 100, 50)), ("small", (6, 10, 5))):
        model.output(add(model, "transpose", model.input(name, float32(*shape)), perm=(0, 2, 1)))
    inlined: dict[gpunn.Preference, list[bool]] = {}
    for preference in gpunn.Preference:
        with model.compile(gpu, preference) as compiled:
            inlined[preference] = [row.kernel.inlined for row in compiled.plan_rows()]
    large = inlining.LEAST <= 6 * 100 * 50 // 4
    assert large and inlined == {p: [p is SUSTAINED, False] for p in gpunn.Preference}


def test_rounds_share_what_is_made_of_their_kernels() -> None:
    model = gpunn.Model("one")
    model.output(add(model, "relu", model.input("x", float32(8))))
    (operation,) = model.operations
    one = Kernel(body="unary", threads=(8, 1, 1), reads=(Read("x", 0),))
    other = replace(one, params={"count": 8})
    (made,) = inline([Placement(operation, DEVICE, kernels=(one, other, one, one))], every=True)
    first, second, *others = made.kernels
    assert first.inlined and second.inlined and second is not first
    assert all(kernel is first for kernel in others)
