"""Bundles: consecutive small dispatches that run as one, against one by one and worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu import bundles
from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.pipelines import Pipelines
from gpunn.compilation.base import Compilation
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.backends.bits import assert_same_bits
from tests.keras_loops import CELLS, Layer, layer_file
from tests.ops.harness import as_software, limit_device, random
from tests.planning.appending import swapped_off

STEPS = 20


def compiled_alone(model: Model) -> Compilation:
    """Compile a model for the GPU, with dispatches of its own for each operation."""
    with pytest.MonkeyPatch.context() as patch:
        swapped_off(patch)
        return model.compile("webgpu")


def ran(
    model: Model, inputs: Sequence[Array], runs: int = 1, appended: bool = False
) -> tuple[list[Array], int]:
    """Run a model on the GPU; return the outputs of the last run, and the dispatches of a run.

    appended: operations may be appended to others (gpunn.planning.append).
    """
    with model.compile("webgpu") if appended else compiled_alone(model) as compiled:
        for _ in range(runs):
            found = compiled(*inputs)
        outputs = found if isinstance(found, tuple) else (found,)
        return list(outputs), compiled.stats.dispatches // runs


def agree(
    model: Model,
    inputs: Sequence[Array],
    most: int,
    monkeypatch: pytest.MonkeyPatch,
    runs: int = 1,
    appended: bool = False,
) -> list[Array]:
    """Assert that a model takes up to so many dispatches, with the bits of one by one; return its outputs."""
    found, dispatches = ran(model, inputs, runs, appended)
    assert dispatches <= most
    with monkeypatch.context() as patch:
        patch.setattr("gpunn.backends.webgpu.bundles.LEAST", 1 << 30)
        expected, alone = ran(model, inputs, runs)
    assert alone >= STEPS > dispatches
    for y, z in zip(found, expected, strict=True):
        assert_same_bits(y, z)
    return found


@pytest.mark.usefixtures("steps_stay")
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_unrolled_layers_are_one_dispatch(
    cell: str, every: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = Layer(cell, STEPS, units=12, every=every, unrolled=True)
    model, x = gpunn.load(layer_file(layer)), random(1, 1, STEPS, layer.features)
    (y,) = agree(model, [x], 1, monkeypatch, appended=True)
    loop = gpunn.load(layer_file(Layer(cell, STEPS, units=12, every=every)))
    with loop.compile("cpu") as compiled:
        np.testing.assert_allclose(y, compiled(x), rtol=1e-5, atol=1e-5)


def chain(model: Model, x: Operand, *ops: str) -> list[Operand]:
    """Apply operations of one operand one after the other, STEPS times; return the result of each time."""
    made = []
    for _ in range(STEPS):
        for op in ops:
            (x,) = model.add(op, [x])
        made.append(x)
    return made


def test_a_trace_compiles_what_only_the_bundle_has_run_so_far(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model()
    model.output(chain(model, model.input("x", float32(5)), "sin", "cos")[-1])
    with compiled_alone(model) as compiled:
        monkeypatch.setattr(open_device(None, False), "_pipelines", Pipelines())
        x = random(0, 5)
        traced = compiled.trace(x)
        assert sum(span.kernel is not None for span in traced.spans) == 2 * STEPS
        np.testing.assert_array_equal(traced.outputs[0], compiled(x))


@pytest.mark.parametrize("size", [1, 7, 64, 130])
def test_sizes(size: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    last = chain(model, model.input("x", float32(size)), "sin", "cos")[-1]
    model.output(last)
    agree(model, [random(0, size)], 1, monkeypatch)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16, DType.FLOAT16, DType.INT64])
def test_other_types(dtype: DType, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements of less than a word are whole words in a bundle, and lie side by side outside of it."""
    model = Model()
    x = model.input("x", TensorType(dtype, (3, 7)))
    one = model.constant("one", np.ones((1, 7), dtype.numpy))
    made = [x]
    for _ in range(STEPS):
        made.append(model.add("add", [made[-1], one])[0])
    model.output(made[5], made[-1])
    values = np.arange(21).reshape(3, 7).astype(dtype.numpy)
    first, last = agree(model, [values], 1, monkeypatch)
    np.testing.assert_array_equal(first, values + np.array(5, dtype.numpy))
    np.testing.assert_array_equal(last, values + np.array(STEPS, dtype.numpy))


def test_quantised_layers(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_software(monkeypatch)  # where a workgroup may do more work
    model = Model()
    type = TensorType(DType.INT8, (1, 12), Quantization((0.1,), (3,)))
    x = model.input("x", type)
    weights = TensorType(DType.INT8, (12, 12), Quantization((0.02,), (0,)))
    w = model.constant("w", np.random.default_rng(0).integers(-127, 128, (12, 12)).astype(np.int8), weights)
    for _ in range(STEPS):
        (x,) = model.add("fully_connected", [x, w], quantization=[type.quantization])
    model.output(x)
    agree(model, [np.arange(-60, 60, 10, np.int8).reshape(1, 12)], 1, monkeypatch)


def test_results_inside_are_read_behind(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large operation in the middle divides what is around it, and reads and hands on tensors."""
    model = Model()
    x, large = model.input("x", float32(6)), model.input("z", float32(1 << 16, 6))
    before = chain(model, x, "sin", "cos")
    (sums,) = model.add("add", [large, before[3]])
    (highest,) = model.add("reduce_max", [sums], {"axes": (0,)})
    (joined,) = model.add("add", [highest, before[-1]])
    after = chain(model, joined, "cos", "sin")
    model.output(after[-1], before[7], sums)
    agree(model, [random(0, 6), random(1, 1 << 16, 6)], 8, monkeypatch)


def test_parts_that_are_joined(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that lie in rows of a larger one; and one part that is computed outside of the bundle."""
    model = Model()
    made = chain(model, model.input("x", float32(3, 4)), "sin", "cos")
    (outside,) = model.add("reduce_max", [model.input("z", float32(1 << 14, 3, 4))], {"axes": (0,)})
    (outside,) = model.add("reshape", [outside], {"shape": (3, 4)})
    model.output(*model.add("concat", [*made, outside], {"axis": 1}))
    agree(model, [random(0, 3, 4), random(1, 1 << 14, 3, 4)], 6, monkeypatch)


def test_parts_of_tensors(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of what lies side by side are not copied, unless they are results of the model."""
    model = Model()
    x = model.input("x", float32(STEPS, 8))
    sums, parts = model.constant("zero", np.zeros((1, 8), np.float32)), []
    for k in range(STEPS):
        (part,) = model.add("strided_slice", [x], {"begin": (k, 0), "end": (k + 1, 8), "strides": (1, 1)})
        parts.append(part)
        (sums,) = model.add("sin", model.add("add", [sums, part]))
    model.output(sums, parts[3])
    given = random(0, STEPS, 8)
    _, part = agree(model, [given], 2, monkeypatch)
    np.testing.assert_array_equal(part, given[3:4])


def test_variables(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    state = model.variable("state", float32(2, 3))
    last = chain(model, model.add("add", [state, model.input("x", float32(2, 3))])[0], "sin", "cos")[-1]
    model.update(state, last)
    model.output(*model.add("neg", [last]))
    agree(model, [random(0, 2, 3)], 1, monkeypatch, runs=3)


def test_many_are_several_dispatches(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver is asked for more iterations of loops than it does."""
    limit_device(monkeypatch, max_loop_iterations=400)
    model = Model()
    model.output(chain(model, model.input("x", float32(9)), *["sin", "cos"] * 4)[-1])
    found, dispatches = ran(model, [random(0, 9)])
    with model.compile("cpu") as compiled:
        np.testing.assert_allclose(found[0], compiled(random(0, 9)), atol=1e-5)
    assert 1 < dispatches < STEPS


def test_what_does_not_repeat_stays_as_it_is(gpu: str) -> None:
    """The shader would have a call of each, and take longer to compile than it saves."""
    ops = ("sin", "cos", "tanh", "abs", "neg", "square", "floor", "exp", "relu", "erf", "round", "sign")
    rng = np.random.default_rng(0)
    model = Model()
    x = model.input("x", float32(9))
    names = [ops[k] for k in rng.integers(0, len(ops), 60)]
    for name in names:
        (x,) = model.add(name, [x])
    model.output(x)
    _, dispatches = ran(model, [random(0, 9)])
    assert dispatches > 40


def test_a_trace_has_each_operation(gpu: str) -> None:
    model = Model()
    model.output(chain(model, model.input("x", float32(9)), "sin", "cos")[-1])
    with compiled_alone(model) as compiled:
        (y,), trace = [compiled(random(0, 9))], compiled.trace(random(0, 9))
    named = [span.operation.op for span in trace.spans if span.operation is not None]
    assert named == ["sin", "cos"] * STEPS
    np.testing.assert_array_equal(trace.outputs[0], y)


def test_arenas_over_the_limit_of_a_binding(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle binds arenas as a whole, so these dispatches run one by one."""
    model = Model()
    last = chain(model, model.input("x", float32(64)), "sin", "cos")[-1]
    model.output(last)
    limits = {**open_device(None, False).properties.limits, "max-storage-buffer-binding-size": 256}
    as_software(monkeypatch, limits=limits)  # with one arena
    found, dispatches = ran(model, [random(0, 64)])
    assert dispatches == 2 * STEPS
    np.testing.assert_allclose(found[0], last_of(random(0, 64)), rtol=1e-5)


def last_of(x: Array) -> Array:
    for _ in range(STEPS):
        x = np.cos(np.sin(x))
    return x


def test_parts_of_parts(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of what is itself read where it lies in a larger tensor, behind its beginning."""
    as_software(monkeypatch)  # where a workgroup may do more work
    model = Model()
    x = model.input("x", float32(1, 8))
    for k in range(STEPS):
        (y,) = model.add("fully_connected", [x, model.constant("w", random(k, 16, 8))])
        _, part = model.add("split", [y], {"axis": 1, "sizes": (8, 8)})
        ends = ((None, 4), (4, 8))
        attrs = [{"begin": (0, b), "end": (1, e), "strides": (1, 1)} for b, e in ends]
        quarters = [model.add("strided_slice", [part], each)[0] for each in attrs]
        scores = [model.add("softmax", [quarter])[0] for quarter in quarters]
        (x,) = model.add("concat", scores, {"axis": 1})
    model.output(x)
    (y,) = agree(model, [random(0, 1, 8)], STEPS - 1, monkeypatch)
    with model.compile("cpu") as compiled:
        np.testing.assert_allclose(y, compiled(random(0, 1, 8)), rtol=1e-4, atol=1e-6)


def test_each_dispatch_of_a_split_asks_for_the_part_that_it_writes(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for all of them, which takes long where there are thousands."""
    count, model = 50, Model("wide")
    parts = model.add("split", [model.input("x", float32(count, 4))], {"axis": 0, "sizes": (1,) * count})
    model.output(*model.add("concat", parts[::-1], {"axis": 0}))
    asked, is_plain = list[object](), bundles._Bundles._is_plain
    monkeypatch.setattr(bundles._Bundles, "_is_plain", lambda *a: asked.append(a) or is_plain(*a))
    x = random(0, count, 4)
    with model.compile(gpu) as compiled:
        np.testing.assert_array_equal(compiled(x), x[::-1])
    assert len(asked) == 2 * count
