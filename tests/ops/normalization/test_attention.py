"""Attention in one kernel, against rows in float64; who is offered the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE, DeviceProperties
from gpunn.errors import ModelError
from gpunn.graph.operation import Operation
from gpunn.graph.tolerance import bounds
from gpunn.kernel import Kernel
from gpunn.model import Model
from gpunn.ops.accuracy import ATOL, EPS, GENERAL
from gpunn.ops.normalization.attention import attention
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.harness import random, type_of

Values = list[Array | None]
GPU = replace(BASELINE, parallel_invocations=1 << 15)
BATCHES = ((), (3,), (2, 3), (2, 1), (1, 3))


def exact(inputs: Values, attrs: dict[str, Any]) -> Array:
    """Compute the result in float64, row by row."""
    wide = [None if v is None else v.astype(np.float64) for v in inputs]
    q, k, v = (
        np.swapaxes(x, -1, -2) if attrs.get(name) else x
        for x, name in zip(wide, ("adj_q", "adj_k", "adj_v"), strict=False)
        if x is not None
    )
    mask, scale = (*wide[3:], None, None)[:2]
    masks = np.zeros((1, 1)) if mask is None else np.atleast_2d(mask)
    stack = np.broadcast_shapes(*(x.shape[:-2] for x in (q, k, v, masks)))
    queries, keys, columns = q.shape[-2], k.shape[-1], v.shape[-1]
    q, k, v = (np.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (q, k, v))
    masks, result = np.broadcast_to(masks, (*stack, queries, keys)), np.zeros((*stack, queries, columns))
    for *at, row in np.ndindex(*stack, queries):
        place = tuple(at)
        scores = (q[place][row] @ k[place]) * (1.0 if scale is None else scale.item()) + masks[place][row]
        with np.errstate(invalid="ignore"):  # of rows without any key
            weights = np.exp((scores - scores.max()) * attrs.get("beta", 1.0))
        result[place][row] = weights @ v[place] / weights.sum()
    return result


def model_of(inputs: Values, attrs: dict[str, Any]) -> Model:
    model = Model("attention")
    operands = [None if v is None else model.input(f"x{n}", type_of(v)) for n, v in enumerate(inputs)]
    model.output(*model.add(attention, operands, attrs))
    return model


def limit_of(operation: Operation, inputs: Values, result: Array) -> Array:
    wide = [None if v is None else v.astype(np.float64) for v in inputs]
    (bound,) = bounds(operation, wide, (result,))
    return bound.limit


def computed(inputs: Values, attrs: dict[str, Any], backend: str) -> Array:
    """Return what the kernel gives, or on the CPU the reference in float32."""
    with model_of(inputs, attrs).compile(backend) as compiled:
        found: Array = compiled(*(v for v in inputs if v is not None))
        bodies = [row.kernel.body for row in compiled.plan_rows()]
    assert bodies == (["attention"] if backend == "webgpu" else [])
    return found


def checked(inputs: Values, attrs: dict[str, Any], backend: str) -> Array:
    """Compare computed() with exact()."""
    y, expected = computed(inputs, attrs, backend), exact(inputs, attrs)
    assert y.shape == expected.shape
    limit = limit_of(model_of(inputs, attrs).operations[0], inputs, expected)
    assert (np.abs(y - expected) <= limit).all()
    return y


def drawn(
    seed: int,
    stacks: tuple[tuple[int, ...], ...],
    sizes: tuple[int, int, int, int],
    attrs: dict[str, Any],
    mask: tuple[int, ...] | None = None,
    scale: float | None = None,
) -> tuple[Values, dict[str, Any]]:
    """Draw operands; sizes: queries, keys, depth, columns of the values."""
    queries, keys, depth, columns = sizes
    found: Values = []
    for name, stack, matrix in zip(
        "qkv", stacks, ((queries, depth), (depth, keys), (keys, columns)), strict=True
    ):
        shape = matrix[::-1] if attrs.get(f"adj_{name}") else matrix
        found.append(random(seed + len(found), *stack, *shape, low=-2, high=2))
    found.append(None if mask is None else random(seed + 3, *mask))
    found.append(None if scale is None else np.float32(scale))
    return found, attrs


# Tiles of 32 queries, 64 keys and 64 columns that are whole, several, and parts of such; depths and columns
# that 16, 4 or 1 divide; stacks and masks that broadcast.
CASES = (
    drawn(1, ((), (), ()), (32, 64, 64, 64), {}, None, 0.125),
    drawn(2, ((1, 3), (1, 3), (1, 3)), (197, 197, 64, 64), {"adj_k": True}, (1, 1, 1, 197), 0.125),
    drawn(3, ((2, 3), (3,), (2, 1)), (33, 65, 13, 70), {"adj_q": True, "adj_v": True}, (2, 1, 33, 65)),
    drawn(4, ((2,), (1,), (2,)), (70, 130, 1, 1), {"beta": 0.5}, (70, 1), 3.0),
    drawn(5, ((), (), ()), (8, 1, 7, 128), {"adj_k": True, "adj_v": True}, (1,)),
    drawn(6, ((3,), (3,), (3,)), (9, 3, 20, 5), {"adj_q": True, "adj_k": True}, (4, 1, 9, 3), -0.25),
    drawn(7, ((2, 1, 2), (1, 3, 1), (2, 1, 1)), (16, 12, 4, 8), {}, (2, 1, 1, 1, 12), 1.0),
)


def drawn_cases() -> Iterator[tuple[Values, dict[str, Any]]]:
    for seed in range(20, 26):
        rng = np.random.default_rng(seed)
        queries, keys, depth, columns = map(int, rng.integers((8, 1, 1, 1), (80, 200, 70, 129)))
        attrs = {f"adj_{name}": bool(rng.integers(2)) for name in "qkv"}
        masks = (None, (keys,), (queries, 1), (2, 3, 1, keys), (1, queries, keys))
        yield drawn(
            seed,
            tuple(BATCHES[n] for n in rng.integers(0, len(BATCHES), 3)),
            (queries, keys, depth, columns),
            {**attrs, "beta": float(rng.uniform(0.1, 2))},
            masks[rng.integers(len(masks))],
            (None, float(rng.uniform(-1, 1)))[seed % 2],
        )


def described(case: tuple[Values, dict[str, Any]]) -> str:
    return f"{[None if v is None else v.shape for v in case[0]]} {case[1]}"


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", [*CASES, *drawn_cases()], ids=described)
def test_attention(case: Any, hardware: str) -> None:
    checked(*case, hardware)


def test_numbers_by_hand(hardware: str) -> None:
    """Scores of 0 and ln 3 weigh 1 to 3; the last query sees the second key alone."""
    q = np.zeros((8, 1), np.float32)
    q[1:] = np.log(3.0)
    mask = np.zeros((8, 2), np.float32)
    mask[7, 0] = -np.inf
    inputs: Values = [q, np.float32([[0, 1]]), np.float32([[8, 0], [4, 16]]), mask, None]
    y = computed(inputs, {}, hardware)
    wanted = np.float32([[6, 8], *[[5, 12]] * 6, [4, 16]])
    np.testing.assert_allclose(y, wanted, rtol=0, atol=float(np.max(16 * 20 * EPS)))


@pytest.mark.parametrize("size", [1e2, 1e15, 3e18])
def test_large_scores_do_not_overflow(size: float, hardware: str) -> None:
    """Scores of up to 1e37 in rising order, so each tile of keys has a new highest one: the last key wins."""
    keys, columns = 150, 6
    q = np.full((9, 1), size, np.float32)
    k = np.linspace(-1, 1, keys, dtype=np.float32)[None] * np.float32(size)
    v = random(1, keys, columns)
    for order in (slice(None), slice(None, None, -1)):
        y = checked([q, k[:, order].copy(), v[order].copy(), None, None], {}, hardware)
        np.testing.assert_allclose(y, np.tile(v[-1], (9, 1)), rtol=GENERAL * EPS)


def test_masked_keys_do_not_count(hardware: str) -> None:
    """Of 200 keys a query sees those up to its own number; some see only keys of the second tile, or none."""
    (q, k, v, *_), attrs = drawn(1, ((2,), (2,), (2,)), (70, 200, 12, 20), {})
    mask = np.where(np.arange(200) <= np.arange(70)[:, None], 0.0, -np.inf).astype(np.float32)
    mask[40] = np.where(np.arange(200) >= 100, 0.0, -np.inf)
    mask[5] = -np.inf
    y, expected = computed([q, k, v, mask, None], attrs, hardware), exact([q, k, v, mask, None], attrs)
    limit = limit_of(model_of([q, k, v, mask, None], attrs).operations[0], [q, k, v, mask, None], expected)
    seen = np.arange(70) != 5
    assert np.isnan(y[:, 5]).all()
    assert (np.abs(y - expected) <= limit)[:, seen].all()
    assert v is not None
    np.testing.assert_allclose(y[:, 0], v[:, 0], rtol=GENERAL * EPS)


@pytest.mark.parametrize("place", [3, 130])
def test_undefined_and_infinite_scores_make_their_rows_undefined(place: int, hardware: str) -> None:
    (q, k, v, *_), attrs = drawn(1, ((), (), ()), (40, 150, 5, 7), {})
    mask = np.zeros((40, 150), np.float32)
    mask[7, place], mask[21, place] = np.nan, np.inf
    undefined = np.isnan(computed([q, k, v, mask, None], attrs, hardware))
    np.testing.assert_array_equal(undefined, np.isin(np.arange(40), (7, 21))[:, None].repeat(7, axis=1))


def test_undefined_elements_stay_in_their_rows_and_columns(hardware: str) -> None:
    """Depths and columns that 4 does not divide: behind the end of a row lies the next one."""
    (q, k, v, *_), attrs = drawn(1, ((2,), (2,), (2,)), (33, 9, 5, 7), {"adj_k": True})
    assert q is not None and v is not None
    q[0, 32, 4] = np.nan
    v[1, 8, 6] = np.inf
    y = computed([q, k, v, None, None], attrs, hardware)
    assert np.isnan(y[0, 32]).all() and np.isinf(y[1, :, 6]).all()
    assert np.isfinite(np.delete(y[0], 32, axis=0)).all() and np.isfinite(y[1, :, :6]).all()


@pytest.mark.parametrize("depth", [5, 8])
def test_a_key_with_an_infinite_element_gets_no_weight(depth: int, hardware: str) -> None:
    """Its scores are -inf; nothing behind the end of its elements makes them NaN."""
    (q, k, v, *_), attrs = drawn(1, ((), (), ()), (9, 70, depth, 4), {"adj_k": True})
    assert q is not None and k is not None and v is not None
    q[:, -1] = 1
    k[66, -1] = -np.inf
    y = computed([q, k, v], attrs, hardware)
    others: Values = [q, np.delete(k, 66, axis=0), np.delete(v, 66, axis=0)]
    expected = exact(others, attrs)
    assert (np.abs(y - expected) <= limit_of(model_of(others, attrs).operations[0], others, expected)).all()


def test_float16_is_stored_and_not_computed_with(hardware: str) -> None:
    reals, attrs = drawn(1, ((2,), (2,), (2,)), (20, 70, 8, 12), {"adj_k": True}, (70,), 0.5)
    inputs: Values = [None if v is None else v.astype(np.float16) for v in reals]
    assert checked(inputs, attrs, hardware).dtype == np.float16


@pytest.mark.parametrize(
    ("sizes", "stack"),
    [
        ((8, 0, 4, 5), (2,)),
        ((8, 5, 4, 5), (0,)),
        ((0, 5, 4, 5), (2,)),
        ((8, 5, 4, 0), (2,)),
        ((8, 5, 0, 5), ()),
    ],
    ids=str,
)
def test_empty_tensors(sizes: tuple[int, int, int, int], stack: tuple[int, ...]) -> None:
    """They are not offered the kernel. Without keys sums are 0; without a depth all keys weigh the same."""
    (q, k, v, *_), _ = drawn(1, (stack, stack, stack), sizes, {})
    operation = model_of([q, k, v], {}).operations[0]
    assert isinstance(lower(operation, GPU), str)
    (y,) = operation.evaluate([q, k, v])
    assert y.shape == (*stack, sizes[0], sizes[3])
    if sizes[2] == 0 and v is not None:
        np.testing.assert_allclose(y, np.tile(v.mean(axis=0), (8, 1)), rtol=GENERAL * EPS)
    else:
        assert not y.any()


def test_bounds_have_the_errors_of_weights_and_sums() -> None:
    """Two keys with scores of 2 and 1: three products each, no scale."""
    inputs: Values = [
        np.float32([[1, 2, -1]]),
        np.float32([[1, 1], [1, 0], [1, 0]]),
        np.float32([[3], [-5]]),
    ]
    weights = np.array([np.e, 1]) / (np.e + 1)
    y = np.array([[weights @ [3, -5]]])
    found = limit_of(model_of(inputs, {}).operations[0], inputs, y)
    off = EPS * np.array([3 * 4 + 2 + 2 + 4 * 0 + 12, 3 * 1 + 1 + 1 + 4 * 1 + 12])
    worst = off.max() + EPS * (2 * 2 + 2 + 3)
    wanted = weights * [3, 5] @ np.expm1(off + worst) + ATOL + GENERAL * EPS * np.abs(y)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def offered(device: DeviceProperties, queries: int = 8, columns: int = 128) -> list[str]:
    model = model_of(drawn(1, ((2,), (2,), (2,)), (queries, 5, 4, columns), {})[0], {})
    kernels = lower(model.operations[0], device)
    return [kernel.body for kernel in kernels if isinstance(kernel, Kernel)]


def test_devices_with_a_memory_of_workgroups_are_offered_the_kernel() -> None:
    assert offered(GPU) == ["attention"]
    assert offered(replace(GPU, software=True)) == []
    assert offered(GPU, queries=7) == []  # most of a tile would be idle
    assert offered(GPU, columns=129) == []  # scores would be computed three times


@pytest.mark.parametrize(
    ("mask", "scale", "message"),
    [
        ((9, 5), None, "cannot be broadcast"),
        (None, (5,), "must be one number"),
        (None, (2, 1, 1), "one number"),
    ],
)
def test_other_masks_and_scales_are_refused(
    mask: tuple[int, ...] | None, scale: tuple[int, ...] | None, message: str
) -> None:
    model = Model()
    q, k, v = (
        model.input(name, float32(*shape))
        for name, shape in zip("qkv", ((8, 4), (4, 5), (5, 6)), strict=True)
    )
    others = [None if s is None else model.input("m", float32(*s)) for s in (mask, scale)]
    with pytest.raises(ModelError, match=message):
        model.add(attention, [q, k, v, *others])


def test_a_mask_makes_no_further_rows() -> None:
    model = Model()
    q, k, v = (
        model.input(name, float32(*shape))
        for name, shape in zip("qkv", ((1, 4), (4, 5), (5, 6)), strict=True)
    )
    with pytest.raises(ModelError, match="must not have more queries or keys"):
        model.add(attention, [q, k, v, model.input("m", TensorType(DType.FLOAT32, (8, 5)))])


def test_stacks_of_more_dimensions_than_the_shader_walks_are_left_alone() -> None:
    stacks = (2, 1, 2, 1, 2), (1, 2, 1, 2, 1), (1,)
    operation = model_of(drawn(1, stacks, (8, 5, 4, 3), {})[0], {}).operations[0]
    assert "5 batch dimensions that cannot be merged" in lower(operation, GPU)
