"""complex64 tensors: two float32 on the GPU. Elements move to the bit, and arithmetic is numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.types import Array, DType, TensorType
from tests.ops.harness import check, model_of, random, random_complex

SHAPES = ((5,), (3, 8), (2, 3, 7), (2, 1, 4, 3), (0, 3), ())
EXTREMES = np.array(
    [
        complex(np.inf, np.nan),
        complex(np.nan, -np.inf),
        complex(np.nan, 1),
        complex(1, np.nan),
        complex(3e38, 1e38),
        complex(3e38, -3e38),
        complex(1e-30, -1e-30),
        complex(1e20, 1),
        complex(-0.0, 0.0),
    ],
    np.complex64,
)


def indices(*values: int) -> Array:
    return np.array(values, np.int64)


@pytest.mark.parametrize("name", ["real", "imag"])
def test_parts_are_those_of_numpy_to_the_bit(name: str, backend: str) -> None:
    for seed, shape in enumerate(SHAPES):
        check(name, [random_complex(seed, *shape)], backend=backend, atol=0, rtol=0)
    check(name, [EXTREMES], backend=backend, atol=0, rtol=0)


def test_absolute_values(backend: str) -> None:
    """Squares do not overflow, and an infinite part counts before NaN, as in C's hypot()."""
    for seed, shape in enumerate(SHAPES):
        check("complex_abs", [random_complex(seed, *shape)], backend=backend)
        check("complex_abs", [random_complex(seed, *shape) * np.float32(1e30)], backend=backend)
    found = check("complex_abs", [EXTREMES], backend=backend)[0]
    assert np.isinf(found[[0, 1, 5]]).all()
    assert np.isnan(found[[2, 3]]).all()
    assert found[6] == pytest.approx(2**0.5 * 1e-30, rel=1e-6)


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_arithmetic(name: str, backend: str) -> None:
    for seed, (a, b) in enumerate((*zip(SHAPES, SHAPES, strict=True), ((2, 3, 7), (7,)), ((), (3, 8)))):
        check(name, [random_complex(seed, *a), random_complex(seed + 9, *b)], backend=backend)
    check(name, [random_complex(1, 2, 1, 4, 3), random_complex(2, 3, 1, 1)], backend=backend)
    check(name, [random_complex(1, 2, 1, 4, 8), random_complex(2, 3, 1, 8)], backend=backend)


def test_a_product_by_hand(backend: str) -> None:
    a, b = np.array([1 + 2j, 3 - 1j, 2j], np.complex64), np.array([3 + 4j, 3 + 1j, 2j], np.complex64)
    assert check("mul", [a, b], backend=backend)[0].tolist() == [-5 + 10j, 10, -4]


@pytest.mark.parametrize("name", ["add_n", "mul_n"])
def test_several_operands(name: str, backend: str) -> None:
    check(name, [random_complex(seed, 3, 5) for seed in range(3)], backend=backend)


@pytest.mark.parametrize("to", ["float32", "float16", "int32", "int64", "int8", "uint8", "bool", "complex64"])
def test_a_cast_takes_the_real_part(to: str, backend: str) -> None:
    x = np.array([1j, 2.7 + 1j, -3.5, 0, 300.2 - 2j, complex(np.nan, 1), 1e30 + 1j], np.complex64)
    if to in ("int8", "uint8", "float16"):
        x = x[:4]
    with np.errstate(invalid="ignore"):
        given = x if to == "complex64" else x.real
        expected = check("cast", [given], {"dtype": to}, backend="cpu", atol=0, rtol=0)[0]
    found = check("cast", [x], {"dtype": to}, backend=backend, atol=0 if to != "float16" else 1e-3, rtol=0)[0]
    np.testing.assert_array_equal(found, expected)


def test_real_numbers_become_complex_without_an_imaginary_part(backend: str) -> None:
    for dtype in (np.float32, np.float16, np.int32, np.int64, np.int8, np.uint8):
        x = np.array([3, 0, 100, 7], dtype)
        found = check("cast", [x], {"dtype": "complex64"}, backend=backend, atol=0, rtol=0)[0]
        np.testing.assert_array_equal(found, x.astype(np.complex64))
    found = check("cast", [np.array([True, False])], {"dtype": "complex64"}, backend=backend)[0]
    assert found.tolist() == [1, 0]


IMAGE = random_complex(3, 2, 4, 6, 8)
CASES: list[tuple[str, list[Array], dict[str, Any]]] = [
    *(
        ("transpose", [random_complex(1, *shape)], {"perm": (2, 0, 1)})
        for shape in ((3, 5, 7), (4, 8, 2), (0, 3, 4))
    ),
    ("reshape", [random_complex(1, 3, 4)], {"shape": (2, 6)}),
    ("squeeze", [random_complex(1, 3, 1)], {}),
    ("strided_slice", [random_complex(1, 9, 8)], {"begin": (1, 0), "end": (8, 8), "strides": (2, 1)}),
    (
        "strided_slice",
        [random_complex(1, 9, 7)],
        {"begin": (None, 6), "end": (None, None), "strides": (-1, -2)},
    ),
    *(
        (op, [random_complex(1, 3, 2, n)], {"paddings": ((1, 0), (0, 0), (2, 1)), **more})
        for op, more in (("pad", {"value": -1.5}), ("pad", {}), ("mirror_pad", {"mode": "reflect"}))
        for n in (5, 4)
    ),
    ("roll", [random_complex(1, 3, 5)], {"shifts": (1, -2)}),
    ("dilate", [random_complex(1, 3, 4), random_complex(2)], {"steps": (2, 1)}),
    *(
        ("concat", [random_complex(1, 3, n), random_complex(2, 3, m)], {"axis": 1})
        for n, m in ((5, 2), (4, 8))
    ),
    ("stack", [random_complex(1, 3, 5), random_complex(2, 3, 5)], {"axis": 1}),
    *(("unstack", [random_complex(1, 2, n)], {"axis": 0}) for n in (5, 8)),
    ("split", [random_complex(1, 9, 3)], {"sizes": (4, 0, 5), "axis": 0}),
    ("tile", [random_complex(1, 3, 5)], {"multiples": (2, 3)}),
    ("broadcast_to", [random_complex(1, 3, 1)], {"shape": (2, 3, 4)}),
    ("fill", [random_complex(1, 1)], {"shape": (3, 5)}),
    *(("gather", [random_complex(1, 6, n), indices(5, 0, 2)], {}) for n in (5, 8)),
    ("gather_nd", [random_complex(1, 6, 3, 5), indices(5, 0, 2, 1).reshape(2, 2)], {}),
    ("embedding_lookup", [indices(3, 1).astype(np.int32), random_complex(1, 6, 7)], {}),
    ("one_hot", [indices(2, 0, -1, 1), random_complex(1, 1), random_complex(2, 1)], {"depth": 3}),
    *(
        ("select", [random(1, *c) > 0, random_complex(2, *a), random_complex(3, *b)], {})
        for c, a, b in (
            ((3, 5), (3, 5), (3, 5)),
            ((6,), (6,), (6,)),
            ((3, 1), (3, 8), (8,)),
            ((), (4,), (4,)),
        )
    ),
    ("sparse_to_dense", [indices(4, 0), random_complex(1, 2), random_complex(2)], {"shape": (6,)}),
    ("reverse", [random_complex(1, 2, 5, 3), indices(-1, 0)], {}),
    ("reverse_sequence", [random_complex(1, 2, 5, 3), indices(4, 0)], {"axis": 1}),
    ("dynamic_slice", [random_complex(1, 6, 8), indices(2, -5)], {"sizes": (3, 4)}),
    ("dynamic_update_slice", [random_complex(1, 6, 8), random_complex(2, 3, 4), indices(2, 9)], {}),
    ("matrix_diag", [random_complex(1, 2, 3)], {}),
    ("matrix_set_diag", [random_complex(1, 2, 3, 4), random_complex(2, 2, 3)], {}),
    ("resize_nearest", [IMAGE], {"size": (5, 9)}),
    ("depth_to_space", [IMAGE], {"block_size": 2}),
    ("space_to_depth", [IMAGE], {"block_size": 2}),
    ("space_to_batch_nd", [IMAGE], {"block_shape": (2, 2), "paddings": ((1, 1), (0, 2))}),
    (
        "batch_to_space_nd",
        [random_complex(4, 8, 2, 3, 3)],
        {"block_shape": (2, 2), "crops": ((1, 0), (0, 1))},
    ),
    *(("bitcast", [random_complex(1, 3, 4)], {"dtype": dtype}) for dtype in ("float32", "int64", "int8")),
    ("bitcast", [random(1, 3, 2)], {"dtype": "complex64"}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}{[v.shape for v in case[1]]}")
def test_elements_move_to_the_bit(case: tuple[str, list[Array], dict[str, Any]], backend: str) -> None:
    """numpy moves them, and no test relies on arithmetic: single precision is the reference."""
    op, inputs, attrs = case
    model = model_of(op, inputs, attrs)
    expected = model.operations[0].evaluate(inputs)
    with model.compile(backend=backend) as compiled:
        found = compiled.run(dict(zip((o.name for o in model.inputs), inputs, strict=True)))
        assert all(p.backend in (backend, "alias") for p in compiled.placement)
    for wanted, result in zip(expected, found.values(), strict=True):
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result, wanted)


ARITHMETIC = {"add", "sub", "mul", "add_n", "mul_n", "real", "imag", "complex_abs", "cast", "bitcast"}


def test_only_tested_ops_take_complex_numbers() -> None:
    tested = ARITHMETIC | {case[0] for case in CASES}
    shapes = ((3,), (2, 3), (1, 4, 4, 2), (1, 2, 4, 4, 2))
    for name, definition in OPS.items():
        if name in tested or definition.raw:
            continue
        for shape in shapes:
            for count in range(1, 7):
                model = Model("refused")
                inputs = [model.input(f"x{k}", TensorType(DType.COMPLEX64, shape)) for k in range(count)]
                with pytest.raises(gpunn.GpunnError):
                    model.add(name, inputs, {})


def test_complex_numbers_have_no_order() -> None:
    for name, attrs in (("arg_max", {"axis": 0}), ("arg_min", {"axis": 0}), ("top_k", {"k": 1})):
        with pytest.raises(ModelError, match="complex64"):
            model_of(name, [random_complex(1, 4)], attrs)
    with pytest.raises(ModelError, match="activation relu needs a float tensor"):
        model_of("mul", [random_complex(1, 4), random_complex(2, 4)], {"activation": "relu"})


def test_inputs_that_numpy_can_convert(backend: str) -> None:
    model = model_of("real", [random_complex(1, 2)], {})
    with model.compile(backend=backend) as compiled:
        assert compiled([1 + 2j, 3]).tolist() == [1, 3]
        assert compiled(np.array([1, 2], np.int32)).tolist() == [1, 2]
        assert compiled(np.array([0.1, 2], np.float32)).tolist() == [np.float32(0.1), 2]
        with pytest.raises(
            ModelError, match="must be complex64, got complex128, whose values it cannot hold"
        ):
            compiled(np.array([0.1, 2], np.complex128))


def test_constants_and_outputs(backend: str) -> None:
    model = Model("constant")
    x = model.input("x", TensorType(DType.COMPLEX64, (2,)))
    factor = model.constant("factor", np.array([1j, 2], np.complex64))
    model.output(*model.add("mul", [x, factor], {}))
    with model.compile(backend=backend) as compiled:
        found = compiled(np.array([2 + 1j, 3 - 1j], np.complex64))
    assert found.dtype == np.complex64
    assert found.tolist() == [-1 + 2j, 6 - 2j]
