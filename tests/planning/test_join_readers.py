"""Parts of a joined tensor that other operations read, too: these find them in the larger tensor."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.graph.operation import Operand
from gpunn.kernel import Read
from gpunn.model import Model
from gpunn.planning.places import pitch_params
from gpunn.rows import Pitch, Rows
from gpunn.types import DType, Quantization, Shape, TensorType, float32
from tests.evaluator import run
from tests.ops.harness import as_software, limit_device
from tests.planning.appending import add, constant, conv, dispatches, pointwise
from tests.planning.joining import (
    Reader,
    appended,
    clamped,
    concat,
    copied,
    gated,
    in_two_tensors,
    negated,
    normalised,
    of_another_shape,
    of_channels,
    of_rows,
    pooled,
    prepended,
    product,
    read_apart,
    read_by_several,
    squared,
    values,
)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("reader", "left"),
    [
        (negated, 0),
        (normalised, 0),
        (squared, 0),
        (of_another_shape, 0),
        (pooled, 0),
        (product, 0),
        (of_rows, 0),
        (prepended, 0),
        (appended, 0),
        (gated, 0),
        (read_by_several, 0),
        (in_two_tensors, 1),
    ],
)
@pytest.mark.parametrize(
    ("shape", "other"),
    [((1, 4, 4, 8), 4), ((2, 3, 5, 4), 12), ((1, 5, 3, 6), 3), ((2, 1, 3, 7), 4), ((3, 7, 1, 5), 9)],
    ids=str,
)
def test_readers_find_parts_in_the_larger_tensor(
    gpu: str, shape: tuple[int, ...], other: int, reader: Reader, left: int
) -> None:
    model = read_apart(shape, reader, other)
    assert copied(model, values(model)) == left


@pytest.mark.parametrize("size", [(3, 3), (5, 5), (3, 1)])
@pytest.mark.parametrize(("shape", "other"), [((2, 9, 15, 32), 4), ((1, 31, 12, 3), 2)], ids=str)
def test_strips_of_pools_find_parts(
    gpu: str, shape: Shape, other: int, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reader(model: Model, x: Operand) -> Operand:
        return add(model, "max_pool2d", x, size=size, padding="same")

    as_software(monkeypatch)  # which has strips of small results, too
    model = read_apart(shape, reader, other)
    assert copied(model, values(model)) == 0
    with model.compile("webgpu") as compiled:
        assert compiled.plan_rows()[-1].kernel.body == "pool_strip"


@pytest.mark.parametrize("perm", [(0, 3, 1, 2), (0, 1, 3, 2)])
@pytest.mark.parametrize(("shape", "other"), [((1, 16, 36, 8), 3), ((1, 16, 35, 5), 3)], ids=str)
def test_tiles_of_transpositions_find_parts(
    gpu: str, shape: Shape, other: int, perm: tuple[int, ...]
) -> None:
    model = read_apart(shape, lambda model, x: add(model, "transpose", x, perm=perm), other)
    assert copied(model, values(model)) == 0


def grouped(model: Model, x: Operand) -> Operand:
    return add(model, "conv2d", x, constant(model, 4, 3, 3, x.type.shape[3] // 2))


def test_convolutions_with_groups_find_them_there_too(gpu: str) -> None:
    model = read_apart((1, 4, 4, 8), grouped)
    assert copied(model, values(model)) == 0


def reduced(model: Model, x: Operand) -> Operand:
    return add(model, "reduce_max", x, axes=(3,))


def as_an_output(model: Model, x: Operand) -> Operand:
    return x


def as_an_output_of_another_shape(model: Model, x: Operand) -> Operand:
    return add(model, "reshape", x, shape=(-1,))


@pytest.mark.parametrize("reader", [reduced, as_an_output, as_an_output_of_another_shape])
def test_a_part_that_cannot_be_read_in_rows_is_copied(gpu: str, reader: Reader) -> None:
    model = read_apart((1, 4, 4, 8), reader)
    assert copied(model, values(model)) == 1


def test_a_part_of_which_each_kernel_binds_some_rows_is_copied(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The product has two kernels, as its result is over the limit of a binding."""
    limits = open_device(None, False).properties.limits
    limit_device(monkeypatch, limits={**limits, "max-storage-buffer-binding-size": 4096})
    model = Model("rows")
    parts = [clamped(model, model.input(name, float32(64, 4))) for name in "xy"]
    found = add(model, "fully_connected", parts[1], constant(model, 32, 4))
    model.output(concat(model, *parts), found)
    assert copied(model, values(model)) == 1
    with model.compile(gpu) as compiled:
        product = next(p for p in compiled.placement if p.operation.op == "fully_connected")
        assert len(product.kernels) == 2


def test_a_part_that_the_host_reads_is_copied(gpu: str) -> None:
    model = Model("host")
    part, rest = (clamped(model, model.input(name, float32(1, 2, 3))) for name in "xy")
    keys, lookups = (model.constant("k", np.arange(2, dtype=np.int32)) for _ in range(2))
    joined, rows = concat(model, part, rest, axis=2), add(model, "reshape", part, shape=(2, 3))
    found, _ = model.add("hashtable_lookup", [lookups, keys, rows])
    model.output(joined, found)
    assert copied(model, values(model)) == 1
    with model.compile("webgpu") as compiled:
        assert "cpu" in [placement.backend for placement in compiled.placement]


@pytest.mark.parametrize(
    ("reader", "left"), [(negated, 0), (product, 1), (prepended, 0), (appended, 0), (pooled, 1)]
)
def test_fours_that_are_loaded_together_must_lie_together(gpu: str, reader: Reader, left: int) -> None:
    model = read_apart((2, 3, 3, 8), reader, other=3)
    assert copied(model, values(model)) == left


def test_rows_of_another_length_are_copied(gpu: str) -> None:
    """A row of the joined tensor has two rows of the product."""
    model = Model("lengths")
    parts = [clamped(model, model.input(name, float32(9, 2, 8))) for name in "xy"]
    rows = add(model, "reshape", parts[0], shape=(18, 8))
    model.output(concat(model, *parts), add(model, "fully_connected", rows, constant(model, 8, 8)))
    assert copied(model, values(model)) == 1


@pytest.mark.parametrize("reader", [negated, of_rows, prepended, pooled, gated])
@pytest.mark.parametrize("samples", [1, 2])
def test_a_part_in_one_piece_lies_at_an_offset(gpu: str, samples: int, reader: Reader) -> None:
    model = Model("one piece")
    parts = [clamped(model, model.input(name, float32(samples, 3, 3, 8))) for name in "xy"]
    joined = concat(model, *parts, axis=1 if samples == 1 else 0)
    model.output(joined, *(reader(model, part) for part in parts))
    assert copied(model, values(model)) == 0


def highest_around(model: Model, x: Operand) -> Operand:
    return add(model, "max_pool2d", x, size=(3, 3), stride=(1, 1), padding="same")


def negated_product(model: Model, x: Operand) -> Operand:
    return negated(model, pointwise(model, x, 8))


@pytest.mark.parametrize(
    ("new", "names"),
    [
        (negated, ["relu6", "neg"]),
        (of_channels, ["relu6", "conv2d"]),
        (highest_around, ["relu6", "max_pool2d"]),
        (negated_product, ["relu6", "conv2d+neg"]),
        (prepended, ["relu6", "mul+add+conv2d"]),
        (appended, ["relu6", "neg+conv2d+add"]),
    ],
)
@pytest.mark.parametrize("channels", [8, 6])
def test_what_a_dispatch_reads_of_the_tensor_that_it_writes_is_bound_once(
    gpu: str, new: Reader, names: list[str], channels: int
) -> None:
    """WebGPU refuses two bindings: section 3.4.2, usage scopes of writable bindings that alias."""
    model = Model("new")
    part = clamped(model, model.input("x", float32(2, 4, 4, channels)))
    model.output(concat(model, part, new(model, part), axis=3))
    assert copied(model, values(model)) == 0
    with model.compile("webgpu") as compiled:
        assert channels % 4 or dispatches(compiled) == names


@pytest.mark.parametrize("relaxed", [False, True])
def test_words_that_several_elements_share_are_not_bound_so(gpu: str, relaxed: bool) -> None:
    """Loads and stores of float16 and int8 see a binding as words of different kinds."""
    model, scale = Model("words"), Quantization((0.1,), (3,))
    type = float32(1, 4, 4, 8) if relaxed else TensorType(DType.INT8, (1, 4, 4, 8), scale)
    part = clamped(model, model.input("x", type))
    model.output(concat(model, part, highest_around(model, part), axis=3))
    with model.compile("webgpu", relaxed=relaxed) as compiled:
        assert dispatches(compiled)[:3] == ["relu6", "max_pool2d", "concat"]


@pytest.mark.parametrize("channels", [8, 6])
def test_words_of_quantised_numbers(gpu: str, channels: int) -> None:
    """Rows of fours are joined; other parts would share words."""
    model, scale = Model("words"), Quantization((0.1,), (3,))
    parts = [model.input(name, TensorType(DType.INT8, (2, 3, 3, channels), scale)) for name in "xy"]
    clamps = [clamped(model, part) for part in parts]
    model.output(concat(model, *clamps, axis=3), pooled(model, clamps[0]), clamped(model, clamps[1]))
    assert copied(model, values(model)) == (2 if channels % 4 else 0)


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(24))
def test_dense_blocks(gpu: str, seed: int) -> None:
    """Blocks where each layer reads all parts before it, with float64's answers.

    Whole numbers are exact, but for Winograd's convolution, which is rounded.
    """
    rng = np.random.default_rng(seed)
    height, width, first, growth = (int(n) for n in rng.integers((1, 1, 1, 1), (8, 8, 5, 4)))
    unit = int(rng.choice([4, 4, 3]))
    model = Model("dense")
    x = pooled(model, model.input("x", float32(1 + seed % 2, 2 * height, 2 * width, unit * first)))
    seen = []
    for _ in range(int(rng.integers(2, 5))):
        new = LAYERS[rng.integers(len(LAYERS))](model, x)
        new = clamped(model, add(model, "round", conv(model, new, unit * growth)))
        x = concat(model, *((new, x) if rng.random() < 0.3 else (x, new)), axis=3)
        if rng.random() < 0.2:
            seen.append(x)
        if rng.random() < 0.2:
            x = pooled(model, product(model, x))
    model.output(clamped(model, product(model, x)), *seen)
    given = values(model)
    copied(model, given)
    with model.compile("webgpu") as compiled:
        found = compiled(*given)
    for y, expected in zip(found if isinstance(found, tuple) else (found,), run(model, given), strict=True):
        np.testing.assert_array_equal(y, expected)


def flattened(model: Model, x: Operand) -> Operand:
    return clamped(model, product(model, normalised(model, x)))


LAYERS: tuple[Reader, ...] = (flattened, normalised, negated, product, squared, appended)


def test_dense_blocks_copy_nothing(gpu: str) -> None:
    model = Model("dense")
    x = pooled(model, model.input("x", float32(2, 6, 10, 8)))
    for _ in range(4):
        x = concat(model, x, clamped(model, conv(model, flattened(model, x), 4)), axis=3)
    model.output(product(model, normalised(model, x)))
    assert copied(model, values(model)) == 0
    with model.compile("webgpu") as compiled:
        assert dispatches(compiled).count("mul+add+conv2d") == 5
        final = 4 * x.type.size
        assert compiled.stats.arena_bytes < 2.5 * final


@pytest.mark.parametrize("channels", [8, 3])
def test_bundles(gpu: str, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that one workgroup runs, whose results are read by the next one and joined at the end."""
    limit_device(monkeypatch, software=False, subgroup_sizes=None)
    monkeypatch.setattr("gpunn.backends.webgpu.bundles.MAX_WORK", 1 << 20)
    model = Model("bundle")
    x, states = clamped(model, model.input("x", float32(1, 3, 3, channels))), []
    for _ in range(20):
        states.append(x)
        x = add(model, "sub", constant(model, channels, seed=len(states)), x)
        x = add(model, "max_pool2d", x, size=(2, 2), padding="same")
    model.output(concat(model, *states, axis=3), x)
    assert copied(model, values(model)) == 0
    with model.compile("webgpu") as compiled:
        assert {row.bundle for row in compiled.plan_rows()} == {0}


def test_where_rows_begin() -> None:
    read, pitch, rows = Read("x", 0, 4), Pitch(8, 4), Rows(length=8, pitch=20, first=12)
    assert pitch_params(read, pitch, rows, 80) == {"x_pitch": 5, "x_first": 3}
    assert pitch_params(read, pitch, Rows(80, 99, 12), 80) == {"x_pitch": 2, "x_first": 3}
    assert pitch_params(read, pitch, Rows(8, 18, 12), 80) is None
    assert pitch_params(read, pitch, Rows(8, 20, 2), 80) is None
    assert pitch_params(read, pitch, Rows(16, 20, 0), 80) is None
    assert pitch_params(Read("x", 0), Pitch(7), Rows(7, 18, 3), 70) == {"x_pitch": 18, "x_first": 3}
    bytes = Pitch(32, 16)
    assert pitch_params(read, bytes, Rows(32, 48, 16), 320) == {"x_pitch": 3, "x_first": 1}
    assert pitch_params(read, bytes, Rows(32, 40, 16), 320) is None
    assert pitch_params(read, bytes, Rows(32, 48, 4), 320) is None
    assert pitch.params("x") == {"x_pitch": 2, "x_first": 0}
