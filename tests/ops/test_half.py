"""float16 tensors: stored in 16 bits on both backends, rounded as IEEE 754 says, computed in float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu import shader
from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE, SUBGROUPS
from gpunn.kernel import Kernel
from gpunn.model import Model
from gpunn.types import Array, float32
from tests.ops.harness import ATOL, RTOL, check, model_of, random

# A result is rounded once more: to half a unit of float16's last place, or half a step of its subnormals.
ROUNDED: dict[str, Any] = {"rtol": 2.0**-11 + RTOL, "atol": 2.0**-25 + ATOL}


def half(seed: int, *shape: int, low: float = -4, high: float = 4) -> Array:
    return random(seed, *shape, low=low, high=high).astype(np.float16)


def indices(*values: int) -> Array:
    return np.array(values, np.int32)


def recurrent(*shapes: tuple[int, ...]) -> list[Array]:
    return [half(seed, *shape, low=-1, high=1) for seed, shape in enumerate(shapes)]


POSITIONS = np.random.default_rng(6).integers(0, 4, (1, 2, 3, 4)).astype(np.int32)
MOVES = np.float32([[[0.5, 0.25, 0, 0.5], [0, 0.75, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]]])
SHARING = replace(BASELINE, software=True, subgroup_sizes=(8, 8), features=frozenset({SUBGROUPS}))
Case = tuple[str, list[Array], dict[str, Any], tuple[int, ...]]

# op, inputs, attributes, which inputs are constant: every body in shaders/ that reals go through, with rows
# whose length is divisible by four and others.
CASES: list[Case] = [
    *(("relu", [half(1, *shape)], {}, ()) for shape in ((7,), (3, 8), (64, 1025), (0, 3), ())),
    ("sin", [half(1, 3, 5)], {}, ()),
    ("rfft2d", [half(1, 3, 5)], {"length": (2, 6)}, ()),
    ("add", [half(1, 3, 8), half(2, 3, 8)], {"activation": "relu6"}, ()),
    ("mul", [half(1, 3, 7), half(2, 7)], {}, (1,)),
    ("sub", [half(1, 3, 5), half(2)], {}, (1,)),
    ("squared_difference", [half(1, 3, 1, 4), half(2, 1, 5, 4)], {}, ()),
    ("maximum", [half(1, 3, 1, 5), half(2, 1, 2, 5)], {}, ()),
    ("less", [half(1, 3, 5), half(2, 3, 5)], {}, ()),
    ("select", [random(1, 3, 5) > 0, half(2, 3, 5), half(3, 3, 5)], {}, ()),
    *(("cast", [half(1, 3, 5)], {"dtype": to}, ()) for to in ("float32", "int32", "int8", "bool")),
    *(("transpose", [half(1, *shape)], {"perm": (2, 0, 1)}, ()) for shape in ((3, 5, 7), (4, 8, 2))),
    *(
        ("transpose", [half(1, *shape)], {"perm": (1, 0)}, ())
        for shape in ((32, 36), (37, 31), (512, 3), (3, 512), (3, 515))
    ),
    ("strided_slice", [half(1, 9, 8)], {"begin": (1, 0), "end": (8, 8), "strides": (2, 1)}, ()),
    *(
        (op, [half(1, *shape)], {"paddings": ((1, 0), (0, 0), (2, 1)), **more}, ())
        for op, more in (("pad", {"value": 1.5}), ("mirror_pad", {"mode": "reflect"}))
        for shape in ((3, 2, 5), (3, 2, 4))
    ),
    *(("roll", [half(1, 3, n)], {"shifts": (1, -2)}, ()) for n in (4, 5)),
    *(("concat", [half(1, 3, n), half(2, 3, m)], {"axis": 1}, ()) for n, m in ((5, 2), (4, 8))),
    ("tile", [half(1, 3, 5)], {"multiples": (2, 3)}, ()),
    *(("gather", [half(1, 6, n), indices(5, 0, 2)], {}, ()) for n in (5, 8)),
    ("gather_nd", [half(1, 6, 3, 5), indices(5, 0, 2, 1).reshape(2, 2)], {}, ()),
    ("dynamic_slice", [half(1, 5, 7), indices(1, 2)], {"sizes": (2, 3)}, ()),
    ("dynamic_update_slice", [half(1, 5, 7), half(2, 2, 3), indices(1, 2)], {}, ()),
    ("reverse", [half(1, 3, 5), indices(1)], {}, ()),
    ("reverse_sequence", [half(1, 3, 5), indices(2, 5, 0)], {"axis": 1}, ()),
    ("scatter_nd", [indices(2, 0, 2).reshape(3, 1), half(1, 3, 5)], {"shape": (4, 5)}, ()),
    (
        "embedding_lookup_sparse",
        [indices(3, 1, 0), indices(1, 0, 1, 1, 2, 0).reshape(3, 2), half(1, 3), half(2, 4, 5)],
        {"shape": (3, 2), "combiner": "sqrtn"},
        (),
    ),
    ("embedding_lookup", [indices(3, 1), half(1, 6, 7)], {}, (1,)),
    (
        "concat_embeddings",
        [indices(3, 1, 0, 2).reshape(2, 2), half(1, 4, 5), half(2, 3, 4)],
        {"columns": (1, 1)},
        (),
    ),
    ("one_hot", [indices(2, 0, 1), half(1), half(2)], {"depth": 3}, ()),
    ("space_to_batch_nd", [half(1, 1, 3, 4, 3)], {"block_shape": (2, 2), "paddings": ((1, 0), (0, 0))}, ()),
    ("conv2d", [half(1, 2, 6, 7, 8), half(2, 13, 3, 3, 8), half(3, 13)], {"padding": "same"}, (1, 2)),
    ("conv2d", [half(1, 2, 6, 7, 3), half(2, 8, 3, 3, 3), half(3, 8)], {"activation": "relu"}, (1, 2)),
    ("conv2d", [half(1, 2, 6, 7, 8), half(2, 30, 3, 2, 8), half(3, 30)], {"padding": "same"}, (1, 2)),
    *(  # small numbers, as these sums are long
        (
            "conv2d",
            [half(1, 1, 7, 7, 40, low=-1, high=1), half(2, channels, 3, 3, 40, low=-1, high=1)],
            {"padding": "same"},
            (1,),
        )
        for channels in (30, 61)
    ),
    ("conv2d", [half(1, 2, 6, 7, 3), half(2, 32, 3, 3, 3), half(3, 32)], {"activation": "relu"}, (1, 2)),
    ("conv2d", [half(1, 1, 6, 5, 8), half(2, 32, 1, 1, 8)], {}, (1,)),
    ("conv2d", [half(1, 1, 6, 5, 4), half(2, 4, 2, 2, 2)], {}, ()),
    *(("conv2d", [half(1, 1, 8, 8, c), half(2, 48, 2, 2, c)], {"padding": "same"}, (1,)) for c in (4, 3)),
    ("conv2d", [half(1, 1, 8, 8, 4), half(2, 40, 1, 1, 4)], {}, (1,)),
    *(("conv2d", [half(1, 1, h, 5, 8), half(2, 5, 1, 1, 8)], {}, (1,)) for h in (6, 1)),
    *(
        ("conv3d", [half(1, 1, 3, 4, 5, c), half(2, 2, 2, 2, c, n), half(3, n)], {"padding": "same"}, given)
        for c, n, given in ((3, 4, ()), (3, 3, ()), (3, 8, ()), (3, 5, (1, 2)), (4, 8, (1, 2)))
    ),
    *(
        ("conv3d", [half(1, 1, 3, 4, 5, 6), half(2, 2, 2, 2, 3, n), half(3, n)], {"groups": 2}, ())
        for n in (8, 6)
    ),
    *(
        (
            "depthwise_conv2d",
            [half(1, 1, 6, 7, c), half(2, 1, 3, 3, c), half(3, c)],
            {"stride": (1, 2)},
            (1, 2),
        )
        for c in (8, 5)
    ),
    ("depthwise_conv2d", [half(1, 1, 6, 7, 8), half(2, 1, 1, 3, 8)], {}, (1,)),
    *(
        (
            "transpose_conv2d",
            [half(1, 1, 3, 4, 5), half(2, n, 3, 3, 5)],
            {"size": (7, 9), "stride": (2, 2)},
            (1,),
        )
        for n in (4, 3)
    ),
    *(("fully_connected", [half(1, 3, 7), half(2, 5, 7), half(3, 5)], {}, given) for given in ((1, 2), ())),
    *(("batch_matmul", [half(1, 2, 3, 5), half(2, 2, 5, n)], {}, ()) for n in (4, 7)),
    *(("batch_matmul", [half(1, 2, 9, 5), half(2, 2, 5, n)], {}, ()) for n in (8, 11)),
    *(
        (op, [half(1, 1, 6, 7, c)], {"size": (3, 2), "padding": "same"}, ())
        for op in ("max_pool2d", "average_pool2d", "l2_pool2d")
        for c in (8, 3)
    ),
    ("max_pool2d", [half(1, 1, 33, 34, 3)], {"size": (3, 3)}, ()),
    *(("mean", [half(1, 3, 70, 5)], {"axes": axes}, ()) for axes in ((1,), (0, 2))),
    ("reduce_max", [half(1, 3, 70, 8)], {"axes": (1,)}, ()),
    ("arg_max", [half(1, 3, 70)], {"axis": 1}, ()),
    (
        "crop_resize",
        [half(1, 2, 5, 6, 3), np.array([[0, 1, 3, 4], [1, 0, 4, 5]], np.float32), indices(1, 0)],
        {"size": (3, 4), "sampling": "align_endpoints"},
        (),
    ),
    *(("warp_affine", [half(1, 1, 4, 5, n), MOVES], {"size": (3, 6)}, ()) for n in (3, 4)),
    *(("spread_pool2d", [half(1, 1, 2, 2, n)], {"spatial": (3, 3), "size": (2, 2)}, ()) for n in (3, 4)),
    ("conv2d_filter_gradient", [half(1, 2, 50, 50, 4), half(2, 2, 50, 50, 3)], {"size": (1, 1)}, ()),
    ("depthwise_filter_gradient", [half(1, 1, 6, 6, 3), half(2, 1, 1, 1, 3)], {"size": (6, 6)}, ()),
    ("batch_matmul", [half(1, 16, 8), half(2, 8, 64)], {}, ()),
    *(
        (f"{op}_filter_gradient", [half(1, 1, 4, 4, n), half(2, 1, 3, 3, n)], {"size": (2, 2)}, ())
        for op in ("conv2d", "depthwise")
        for n in (3, 4)
    ),
    *(("arg_max_pool2d", [half(1, 2, 5, 6, n)], {"size": (2, 3), "stride": (2, 2)}, ()) for n in (3, 4)),
    *(
        ("max_unpool2d", [half(1, 1, 2, 3, n), POSITIONS[..., :n]], {"size": (2, 2), "stride": (2, 2)}, ())
        for n in (3, 4)
    ),
    *(("top_k", [half(1, 3, n)], {"k": k}, ()) for n, k in ((9, 4), (100, 4), (700, 40))),
    ("bucketize", [half(1, 3, 9)], {"boundaries": (-1.0, 0.5)}, ()),
    ("cumsum", [half(1, 3, 9)], {"axis": 1}, ()),
    ("cumsum", [half(1, 3, 9), indices(1)], {}, ()),
    ("cumsum", [half(1, 1025, low=-1, high=1)], {"axis": 0}, ()),
    *((op, [half(1, 3, 70)], {}, ()) for op in ("softmax", "log_softmax", "l2_normalization")),
    *(
        ("layer_normalization", [half(1, 3, *shape)], {"axes": axes, "epsilon": 1e-3, "centred": centred}, ())
        for centred in (True, False)
        for shape, axes in (((70,), (-1,)), ((5, 4, 3), (1, 3)), ((5, 4, 8), (1, 3)), ((9, 4, 6), (1, 3)))
    ),
    *(
        (
            "local_response_normalization",
            [half(1, 3, n)],
            {"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.5},
            (),
        )
        for n in (9, 12)
    ),
    *((op, [half(1, 1, 3, 4, 5)], {"size": (5, 9)}, ()) for op in ("resize_bilinear", "resize_nearest")),
    ("rnn", recurrent((2, 5), (7, 5), (7, 7), (7,), (2, 7)), {"activation": "tanh"}, ()),
    ("svdf", recurrent((2, 5), (6, 5), (6, 4), (3,), (2, 24)), {"rank": 2}, ()),
    ("recurrence", recurrent((2, 4, 7), (7, 7), (2, 7)), {"activation": "tanh"}, (1,)),
    ("gru_recurrence", recurrent((2, 4, 9), (9, 3), (2, 3)), {}, (1,)),
    ("gru_reset_after", recurrent((2, 4, 9), (9, 3), (2, 3), (3,)), {}, (1,)),
    ("lstm_recurrence", recurrent((2, 4, 12), (12, 3), (2, 3), (2, 3), (9,)), {}, (1, 4)),
    *(("rotary_embedding", [half(1, 2, 3, n), half(2, 3, n), half(3, n // 2)], {}, ()) for n in (6, 8)),
    ("dequantize", [half(1, 3, 5)], {}, ()),
]
# Of integers, of float32 alone, for devices that limit loops (see test_chained_rows.py,
# test_loops_in_parts.py and test_long_svdf.py), or for those with subgroups, which have the filter gradients
# and products of CASES; of several operations (test_separable.py, test_attention.py). A bundle has the bodies
# of its dispatches.
OTHER_BODIES = {
    "add_cells",
    "attention",
    "bundle",
    "check_ranges",
    "conv2d_filter_subgroup",
    "cumsum_along_part",
    "cumsum_part",
    "dequantize_axis",
    "embedding_sums_part",
    "extreme_part",
    "find_rows",
    "integer_product",
    "integer_row",
    "integer_workgroup",
    "join_planes",
    "loop",
    "normalize_bytes",
    "philox",
    "quantize",
    "resize_bilinear_bytes",
    "reverse_axes",
    "rotated_crop_box",
    "rotated_crop_matrix",
    "row_begins",
    "row_finish",
    "row_part",
    "row_sum_int64",
    "separable_rows",
    "separable_workgroup",
    "svdf_entry",
    "svdf_memory",
    "table",
    "unfold",
    "winograd_input",
    "winograd_output",
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}{[v.shape for v in case[1]]}")
def test_ops(case: Case, hardware: str) -> None:
    op, inputs, attrs, constants = case
    check(op, inputs, attrs, backend=hardware, constants=constants, **ROUNDED)


def test_every_body_of_reals_has_a_case() -> None:
    root = Path(str(shader.shader_folder()))
    missing = {path.stem for path in root.glob("*.wgsl")} - OTHER_BODIES
    for op, inputs, attrs, constants in CASES:
        for device in (BASELINE, SHARING):
            kernels = lower(model_of(op, inputs, attrs, constants).operations[0], device)
            missing -= {kernel.body for kernel in kernels if isinstance(kernel, Kernel)}
    assert not missing, f"CASES has no operation that runs {', '.join(missing)} on float16"


def edges() -> Array:
    """Return float32 numbers at, below and above every float16 number and every tie, and special ones."""
    finite = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (finite[:-1] + finite[1:]) / 2
    exact = np.concatenate([finite, ties, [65504, 65520, 2.0**-25, 2.0**-26]]).astype(np.float32)
    least, most = (np.nextafter(exact, np.float32(to)) for to in (-np.inf, np.inf))
    special = np.array([np.inf, np.nan, 1e-45, 1e-39, 65519.996, 65536, 1e5, 3.4e38], np.float32)
    numbers = np.concatenate([exact, least, most, special])
    return np.concatenate([numbers, -numbers])


def assert_rounded(y: Array, x: Array) -> None:
    """Assert that y, float16, has the bits of numpy's rounding of x."""
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(y.view(np.uint16)[number], expected.view(np.uint16)[number])
    assert np.isnan(y[~number]).all()


def test_rounding_has_the_bits_of_numpy(backend: str) -> None:
    model = Model()
    model.output(*model.add("cast", [model.input("x", float32(edges().size))], {"dtype": "float16"}))
    with model.compile(backend) as compiled:
        assert_rounded(np.asarray(compiled(edges())), edges())


def test_elements_that_share_a_word_are_rounded_like_numpy(backend: str) -> None:
    """Invocations copy one element each of rows of seven into rows of ten, over old values."""
    x = np.resize(edges(), (edges().size // 7, 7))
    model = Model()
    rows = model.input("x", float32(*x.shape))
    joining = [rows, model.constant("c", np.ones((len(x), 3), np.float32))]
    (joined,) = model.add("concat", joining, {"axis": 1})
    model.output(*model.add("neg", [joined]))
    with model.compile(backend, relaxed=True) as compiled:
        compiled(np.full_like(x, np.nan))
        y = -np.asarray(compiled(x))
    assert_rounded(y[:, :7].astype(np.float16), x)
    assert (y[:, 7:] == 1).all()
