"""Joined results: operations write at once where a concatenation or a stack would copy their results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import lower
from gpunn.graph.operation import Operand
from gpunn.kernel import Kernel
from gpunn.model import Model
from gpunn.planning import places
from gpunn.planning.join import join
from gpunn.planning.partition import partition
from gpunn.planning.pieces import find_pieces
from gpunn.rows import Rows
from gpunn.types import DType, Quantization, TensorType, float32
from tests.ops.harness import as_software
from tests.planning.joining import clamped, concat, copied, negated, values


def branches(types: list[TensorType], axis: int, op: str = "concat") -> Model:
    model = Model("branches")
    parts = [clamped(model, model.input(f"x{k}", type)) for k, type in enumerate(types)]
    model.output(*model.add(op, parts, {"axis": axis}))
    return model


@pytest.mark.parametrize("op", ["concat", "split"])
def test_kernels_of_many_parts_are_not_compared_with_each_other(
    gpu: str, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, model = 100, Model("many")
    x = model.input("x", float32(4, 4) if op == "concat" else float32(4 * count, 4))
    if op == "concat":
        model.output(concat(model, *(negated(model, x) for _ in range(count)), axis=0))
    else:
        parts = model.add("split", [x], {"axis": 0, "sizes": (4,) * count})
        model.output(*(negated(model, part) for part in parts))
    same, compared = Kernel.__eq__, list[Kernel]()
    monkeypatch.setattr(Kernel, "__eq__", lambda a, b: compared.append(a) or same(a, b))
    properties = open_device(None, False).properties
    placements, joined = join(model, partition(model, lambda o: lower(o, properties)), True)
    found, owners = find_pieces(model, placements, {}, joined)
    assert len(owners) + len(joined) >= count
    assert sum(p.operation.op == op and not p.kernels for p in found) == 1
    assert len(compared) < 10 * count


@pytest.mark.parametrize("times", [1, 2])
def test_each_part_of_a_split_asks_for_the_kernels_that_bind_it(
    gpu: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The split writes a concatenation of its parts in another order at once; it is read if each is there
    twice.
    """
    count, model = 100, Model("wide")
    parts = model.add("split", [model.input("x", float32(count, 4))], {"axis": 0, "sizes": (1,) * count})
    model.output(concat(model, *(part for part in reversed(parts) for _ in range(times)), axis=0))
    properties = open_device(None, False).properties
    placements = partition(model, lambda o: lower(o, properties))
    made, asked = Kernel.__init__, list[object]()
    monkeypatch.setattr(Kernel, "__init__", lambda *a, **k: asked.append(a) or made(*a, **k))
    for name in ("read_by", "written_by"):
        of = getattr(places, name)
        monkeypatch.setattr(places, name, lambda *a, of=of: asked.append(a) or of(*a))
    joined, found = join(model, placements, True)
    pieces, owners = find_pieces(model, joined, {}, found)
    assert len(owners) == count
    assert sum(len(p.kernels) for p in pieces) == count * times
    assert len(asked) < 20 * count


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(1, 3, 3, 16), (1, 3, 3, 16)], 3),
        ([(2, 5, 7, 8), (2, 5, 7, 4), (2, 5, 7, 12)], -1),
        ([(2, 3, 5), (2, 3, 1), (2, 3, 7)], 2),
        ([(2, 3, 5), (2, 1, 5), (2, 4, 5)], 1),
        ([(3, 5), (1, 5), (2, 5)], 0),
        ([(7,), (4,), (1,)], 0),
        ([(1000, 1), (1000, 1)], 1),
        ([(301, 1, 4), (301, 2, 4)], 1),
        ([(2, 3), (2, 0), (2, 5)], 1),
        ([(5, 40000), (5, 3)], 1),
    ],
)
def test_parts_of_a_concatenation_are_written_at_once(
    gpu: str, shapes: list[tuple[int, ...]], axis: int
) -> None:
    assert copied(branches([float32(*shape) for shape in shapes], axis)) == 0


@pytest.mark.parametrize(
    ("op", "attrs", "body"),
    [
        ("max_pool2d", {"size": (3, 3), "padding": "same"}, "pool_strip"),
        ("max_pool2d", {"size": (5, 5), "padding": "same"}, "pool_strip"),
        ("transpose", {"perm": (0, 3, 2, 1)}, "copy_tiles"),
        ("transpose", {"perm": (0, 1, 3, 2)}, "copy_ragged_tiles"),
    ],
)
def test_bodies_that_walk_in_steps_write_at_once(
    gpu: str, op: str, attrs: dict[str, object], body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their own steps have other names than those of the accessors that find a part's elements."""
    as_software(monkeypatch)  # on others, pools of this size have no strips, and what precedes transposes
    model = Model(op)
    x = model.input("x", float32(1, 32, 35 if body == "copy_ragged_tiles" else 36, 8))
    (part,) = model.add(op, [clamped(model, x)], attrs)
    other = clamped(model, model.input("y", float32(*part.type.shape[:3], 3)))
    model.output(concat(model, part, other, axis=3))
    assert copied(model) == 0
    with model.compile("webgpu") as compiled:
        assert body in {row.kernel.body for row in compiled.plan_rows()}


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_parts_of_a_stack_are_written_at_once(gpu: str, axis: int) -> None:
    assert copied(branches([float32(3, 5)] * 3, axis, "stack")) == 0


@pytest.mark.parametrize(
    ("channels", "left"),
    [((8, 4), 0), ((4, 3, 4), 3), ((4, 8, 3), 3), ((8, 6), 2)],
    ids=lambda value: str(value),
)
def test_elements_that_share_a_word_are_joined_in_fours_or_copied(
    gpu: str, channels: tuple[int, ...], left: int
) -> None:
    scale = Quantization((0.1,), (3,))
    types = [TensorType(DType.INT8, (1, 3, 3, c), scale) for c in channels]
    assert copied(branches(types, 3)) == left


def test_parts_with_another_scale_are_copied(gpu: str) -> None:
    types = [TensorType(DType.UINT8, (1, 2, 2, 4), Quantization((s,), (3,))) for s in (0.1, 0.2)]
    assert copied(branches(types, 3)) == 1


def in_one_another(model: Model, x: Operand, y: Operand) -> int:
    inner = concat(model, clamped(model, x), clamped(model, y))
    model.output(concat(model, inner, clamped(model, y)))
    return 0


def in_rows_of_another(model: Model, x: Operand, y: Operand) -> int:
    inner = concat(model, clamped(model, x), clamped(model, x), axis=0)
    (wide,) = model.add("reshape", [inner], {"shape": (2, -1)})
    model.output(concat(model, wide, clamped(model, y)))
    return 2  # the outer one has other rows than the inner one


def beside_nothing(model: Model, x: Operand, y: Operand) -> int:
    """All rows of the inner tensor are those of one part; the outer one has rows of another length."""
    (nothing, all_of_it) = model.add("split", [clamped(model, x)], {"axis": 1, "sizes": (0, 6)})
    (tall,) = model.add("reshape", [all_of_it], {"shape": (4, 3)})
    (none,) = model.add("reshape", [nothing], {"shape": (4, 0)})
    inner = concat(model, clamped(model, tall), none)
    (wide,) = model.add("reshape", [inner], {"shape": (2, 6)})
    model.output(concat(model, wide, clamped(model, y)))
    return 0


def through_a_view(model: Model, x: Operand, y: Operand) -> int:
    (flat,) = model.add("reshape", [clamped(model, x)], {"shape": (1, -1)})
    model.output(concat(model, flat, flat_of(model, y)))
    return 0


def flat_of(model: Model, x: Operand) -> Operand:
    (flat,) = model.add("reshape", [clamped(model, x)], {"shape": (1, -1)})
    return flat


def an_input(model: Model, x: Operand, y: Operand) -> int:
    model.output(concat(model, x, clamped(model, y)))
    return 1


def joined_twice(model: Model, x: Operand, y: Operand) -> int:
    shared = clamped(model, x)
    model.output(concat(model, shared, shared, clamped(model, y)))
    return 2


def an_output(model: Model, x: Operand, y: Operand) -> int:
    shared = clamped(model, x)
    model.output(concat(model, shared, clamped(model, y)), shared)
    return 1


def activated(model: Model, x: Operand, y: Operand) -> int:
    model.output(concat(model, clamped(model, x), clamped(model, y), activation="relu1"))
    return 2


def parts_of_a_split(model: Model, x: Operand, y: Operand) -> int:
    left, right = model.add("split", [clamped(model, y)], {"axis": 1, "sizes": (1, y.type.shape[1] - 1)})
    model.output(concat(model, right, clamped(model, x), left))
    return 0


@pytest.mark.parametrize(
    "build",
    [
        in_one_another,
        in_rows_of_another,
        beside_nothing,
        through_a_view,
        an_input,
        joined_twice,
        an_output,
        activated,
        parts_of_a_split,
    ],
)
def test_what_something_else_reads_is_copied(
    gpu: str, build: Callable[[Model, Operand, Operand], int]
) -> None:
    model = Model("joins")
    expected = build(model, model.input("x", float32(2, 6)), model.input("y", float32(2, 5)))
    assert copied(model) == expected


@pytest.mark.parametrize("appended", [False, True])
@pytest.mark.parametrize("channels", [6, 8])
def test_single_rows_are_joined_if_fours_end_with_them(gpu: str, channels: int, appended: bool) -> None:
    """Behind others, a kernel stores padding, which must not become elements of the concatenation."""
    model, rng = Model("rows"), np.random.default_rng(0)
    x, parts = clamped(model, model.input("x", float32(1, 9))), []
    for k in range(2):
        filter, bias = rng.integers(-9, 9, (channels, 9)), rng.integers(-9, 9, channels)
        (rounded,) = model.add("floor", [x])
        operands = [
            rounded,
            model.constant(f"w{k}", filter.astype(np.float32)),
            model.constant(f"b{k}", bias.astype(np.float32)),
        ]
        (part,) = model.add("fully_connected", operands)
        parts.append(*model.add("abs", [part])) if appended else parts.append(part)
    (row,) = model.add("concat", parts, {"axis": 1})
    model.output(*model.add("neg", [row]))
    assert copied(model) == (2 if channels % 4 and not appended else 0)


@pytest.mark.parametrize(("odd", "joins"), [(7, 0), (65537, 1), (65540, 0)])
def test_elementwise_results_end_in_rows(gpu: str, odd: int, joins: int) -> None:
    """A result of many words is stored by fours, also one of an odd size, which is copied then."""
    model = Model("odd")
    x, y = model.input("x", float32(odd)), model.input("y", float32(5))
    (condition,) = model.add("less", [x, model.constant("zero", np.float32(0))])
    (chosen,) = model.add("select", [condition, x, model.constant("ones", np.ones(odd, np.float32))])
    after = clamped(model, y)
    model.output(concat(model, chosen, after, axis=0), concat(model, after, clamped(model, x), axis=0))
    assert copied(model) == 1 + 2 * joins


def test_strips_of_depthwise_convolutions_are_written_at_once(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shaders that kernels generate store through accessors. A window with a single one has exact sums."""
    as_software(monkeypatch)  # which has strips of small results, too
    model = Model("strips")
    parts = []
    for k, channels in enumerate((8, 4)):
        filter = np.zeros((1, 3, 3, channels), np.float32)
        filter[0, k, 1 + k] = 1
        operands = [model.input(f"x{k}", float32(1, 7, 9, channels)), model.constant(f"w{k}", filter)]
        parts += model.add("depthwise_conv2d", operands, {"padding": "same"})
    model.output(concat(model, *parts, axis=3))
    with model.compile("webgpu") as compiled:
        strips = [k for p in compiled.placement for k in p.kernels if k.generated]
    assert [k.name for k in strips] == ["depthwise_strip"] * 2
    assert copied(model) == 0


def test_nothing_is_joined_across_the_host(gpu: str) -> None:
    model = Model("host between")
    x = model.input("x", float32(2, 4))
    early = clamped(model, x)
    keys = model.constant("keys", np.arange(4, dtype=np.int32))
    values = model.constant("values", np.arange(8, dtype=np.float32).reshape(4, 2))
    (lookups,) = model.add("cast", [clamped(model, model.input("y", float32(2)))], {"dtype": "int32"})
    found, _ = model.add("hashtable_lookup", [lookups, keys, values])
    model.output(concat(model, early, clamped(model, found)))
    assert copied(model) == 1, "what comes after the host's work is joined"


def test_a_joined_result_is_alive_from_its_first_part_on(gpu: str) -> None:
    model = Model("long")
    x = model.input("x", float32(1, 4096))
    early = clamped(model, x)
    late = x
    for _ in range(4):
        (late,) = model.add("softmax", [late])
    model.output(concat(model, early, clamped(model, late)))
    with model.compile("webgpu") as compiled:
        value = np.linspace(-2, 9, 4096, dtype=np.float32)[None]
        got = compiled(value)
        np.testing.assert_array_equal(got[:, :4096], np.clip(value, 0, 6))
        assert compiled.stats.peak_live_bytes == 4 * 4096 * 4


def test_places_within_places() -> None:
    inner = Rows(length=3, pitch=8, first=5)
    assert inner.within(Rows(length=8, pitch=20, first=4), 16) == Rows(3, 20, 9)
    assert inner.within(Rows(length=16, pitch=99, first=7), 16) == Rows(3, 8, 12)
    assert inner.within(Rows(length=4, pitch=20, first=4), 16) is None
    assert (Rows(4, 8, 12).unit, inner.unit) == (4, 1)


def test_two_results_of_one_kernel_in_one_tensor(gpu: str) -> None:
    """A dispatch may bind what it writes only once, so one of them is copied."""
    model = Model("top")
    x = negated(model, model.input("x", TensorType(DType.INT32, (3, 8))))
    model.output(concat(model, *model.add("top_k", [x], {"k": 4})))
    assert copied(model, values(model)) > 0


@pytest.mark.parametrize("odd", [3, 5, 7])
def test_the_padding_of_a_table_s_results_is_not_stored_among_others(odd: int, gpu: str) -> None:
    model = Model("table")
    behind, beside = model.input("behind", float32(1, odd + 4)), model.input("beside", float32(3, 4))
    x = model.input("x", TensorType(DType.UINT8, (3, odd), Quantization((0.05,), (3,))))
    last, right, left = (
        model.add(op, [o])[0] for op, o in (("neg", behind), ("neg", beside), ("dequantize", x))
    )
    (rows,) = model.add("concat", [left, right], {"axis": 1})
    model.output(*model.add("concat", [rows, last], {"axis": 0}))
    inputs = {"behind": np.ones((1, odd + 4), np.float32), "beside": np.ones((3, 4), np.float32)}
    inputs["x"] = np.arange(3 * odd, dtype=np.uint8).reshape(3, odd)  # type: ignore[assignment]
    with model.compile("cpu") as reference, model.compile(gpu) as compiled:
        np.testing.assert_array_equal(*(c(*inputs.values()) for c in (reference, compiled)))
