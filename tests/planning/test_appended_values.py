"""What appended operations compute: residual sums, broadcast operands, integers and halves."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from gpunn.backends.webgpu.shader import with_dependencies
from gpunn.backends.webgpu.wgsl import used_libraries, without_comments
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.ops.elementwise import binary, unary
from gpunn.types import DType, Quantization, TensorType, float32
from tests.ops.harness import as_software, random
from tests.planning.appending import (
    add,
    agree,
    as_on_a_gpu,
    batch,
    conv,
    depthwise,
    dispatches,
    moved,
    pooled,
    product,
    whole,
)
from tests.resources import ROOT

SHADERS = ROOT / "shaders"
BODIES = sorted(SHADERS.rglob("*.wgsl"))


@pytest.mark.sample(2)
@pytest.mark.parametrize("channels", [8, 3])
@pytest.mark.parametrize("producer", [conv, depthwise, pooled, product, batch, moved])
def test_residual_sums(
    producer: Callable[[Model, Operand, int], Operand],
    channels: int,
    gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other operand comes first or second, is an input or a result, and an activation follows."""
    if producer is moved:
        as_software(monkeypatch)  # elsewhere, what precedes a transposition stores its result
    model = Model("residual")
    x = model.input("x", float32(2, 5, 5, channels))
    y = producer(model, add(model, "neg", x), channels)
    if y.type.shape != x.type.shape:
        y = add(model, "reshape", y, shape=x.type.shape)
    (y,) = model.add("add", [x, y], {"activation": "relu6"})
    z = producer(model, y, channels)
    if z.type.shape != x.type.shape:
        z = add(model, "reshape", z, shape=x.type.shape)
    model.output(add(model, "sub", z, y))
    names = agree(model, [whole(2, 5, 5, channels)], monkeypatch)
    op = next(o.op for o in model.operations[1:])
    assert names[-2:] == [f"{op}+add", f"{op}+sub"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("channels", [8, 6])
@pytest.mark.parametrize(
    ("shape", "appended"),
    [
        ((1,), True),
        ((-1,), True),
        ((5, 4, 1), True),
        ((2, 5, 4, 1), True),
        ((4, 1), True),
        ((4, -1), True),
        ((5, 1, 1), True),
        ((2, 1, 1, -1), True),
        ((2, 1, 4, 1), False),
        ((1, 5, 1, -1), False),
    ],
    ids=str,
)
def test_broadcast_operands(
    shape: tuple[int, ...], appended: bool, channels: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model("broadcast")
    x = model.input("x", float32(2, 5, 4, channels))
    y = conv(model, x, channels)
    model.output(
        add(model, "mul", y, model.input("c", float32(*(abs(n) if n > 0 else channels for n in shape))))
    )
    given = whole(*model.inputs[1].type.shape, seed=3)
    names = agree(model, [whole(2, 5, 4, channels), given], monkeypatch)
    assert names == (["conv2d+mul"] if appended else ["conv2d", "mul"])


@pytest.mark.parametrize("channels", [8, 5])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16])
def test_quantised_chains_have_the_same_bits(
    dtype: DType, channels: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fixed-point sums and tables behind a pool, whose elements share words."""
    zero = 100 if dtype is DType.UINT8 else 0
    model = Model("quantised")
    type = TensorType(dtype, (1, 4, 5, channels), Quantization((0.05,), (zero,)))
    x = model.input("x", type)
    wider = Quantization((0.11,), (zero,))
    (y,) = model.add("add", [pooled(model, x, channels), x], quantization=[wider])
    y = add(model, "hard_swish" if dtype is not DType.INT16 else "tanh", y)
    model.output(y)
    values = np.random.default_rng(0).integers(*((0, 255) if zero else (-120, 120)), type.shape)
    with monkeypatch.context() as software:
        as_software(software)
        names = agree(model, [values.astype(dtype.numpy)], software)
    assert len(names) == 2, "compilers of software take long for fixed-point arithmetic"
    as_on_a_gpu(monkeypatch)
    names = agree(model, [values.astype(dtype.numpy)], monkeypatch)
    assert names[0].startswith("max_pool2d+add")


def test_integers_wrap_between_operations(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("wraps")
    x = model.input("x", TensorType(DType.UINT8, (4, 4, 8)))
    y = add(model, "bitwise_xor", add(model, "transpose", x, perm=(1, 0, 2)), x)
    y = add(model, "cast", add(model, "cast", y, dtype="int8"), dtype="int32")
    model.output(y)
    values = np.random.default_rng(0).integers(0, 256, (4, 4, 8)).astype(np.uint8)
    assert agree(model, [values], monkeypatch) == ["transpose+bitwise_xor+cast+cast"]


@pytest.mark.parametrize("channels", [8, 3])
@pytest.mark.parametrize("software", [True, False], ids=["software", "hardware"])
def test_halves_are_rounded_after_each_operation(
    software: bool, channels: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compilers of software take long for that, so nothing is appended there."""
    as_software(monkeypatch) if software else as_on_a_gpu(monkeypatch)
    model = Model("relaxed")
    x = model.input("x", float32(1, 5, 4, channels))
    y = add(model, "logistic", add(model, "add", conv(model, x, channels), x))
    y = add(model, "mul", y, model.constant("c", random(5, channels)))
    model.output(add(model, "neg", y), add(model, "abs", y))
    for inputs in ([whole(1, 5, 4, channels)], [random(0, 1, 5, 4, channels)]):
        names = agree(model, inputs, monkeypatch, exact=False, relaxed=True)
        assert ("conv2d+add+mul" in names) is not software, names


def test_quotients_behind_a_mean_of_integers(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean divides integers of 64 bits, and its stores those of 32."""
    as_on_a_gpu(monkeypatch)
    model = Model("quotients")
    x = model.input("x", TensorType(DType.INT32, (4, 8)))
    y = add(model, "mean", x, axes=(1,), keep_dims=False)
    model.output(add(model, "floor_mod", y, model.constant("divisor", np.array(7, np.int32))))
    values = np.random.default_rng(0).integers(-(2**31), 2**31, (4, 8)).astype(np.int32)
    assert agree(model, [values], monkeypatch) == ["mean+floor_mod"]


def test_libraries_of_elementwise_functions_take_no_name_of_a_shader() -> None:
    """An appended function comes into shaders that know nothing of it."""
    libraries = {name for line in binary.TABLE for name in line.libraries}
    libraries |= {line.library for line in unary.TABLE if line.library} | {"affine"}
    files = {path.relative_to(SHADERS).with_suffix("").as_posix(): path.read_text() for path in BODIES}
    for library in sorted(libraries):
        taken = set(re.findall(r"^(?:fn|const|struct|alias) (\w+)", files[f"lib/{library}"], re.MULTILINE))
        assert taken
        for name, text in files.items():
            used = with_dependencies(used_libraries(text))
            if name != f"lib/{library}" and library not in used:
                named = re.findall(r"\b([A-Z]\w*)|\b([a-z]\w*)(?=\()", without_comments(text))
                assert not taken & {word for pair in named for word in pair}, f"{library} in {name}"


def _least(model: Model) -> Operand:
    return model.constant("least", np.full(4, 1e-9, np.float32))


def _of_one(op: str) -> Callable[[Model, Operand], Operand]:
    return lambda model, x: add(model, op, x, x)


def _minus_another(op: str) -> Callable[[Model, Operand], Operand]:
    return lambda model, x: add(model, "sub", add(model, op, x, x), x)


@pytest.mark.parametrize(
    "result",
    [
        _of_one("sub"),
        _of_one("squared_difference"),
        _minus_another("maximum"),
        lambda model, x: add(model, "add", x, add(model, "neg", x)),
        lambda model, x: add(model, "sub", add(model, "mul", x, x), add(model, "square", x)),
        lambda model, x: add(model, "sub", add(model, "add", x, _least(model)), x),
        lambda model, x: add(model, "add", x, add(model, "sub", _least(model), x)),
    ],
)
def test_a_value_minus_itself_keeps_infinity_and_nan(
    result: Callable[[Model, Operand], Operand], gpu: str
) -> None:
    """Compilers make 0 of x - x."""
    model = Model("cancels")
    model.output(result(model, add(model, "abs", model.input("x", float32(4)))))
    with model.compile(gpu) as compiled:
        found = compiled(np.array([1, np.inf, np.nan, -np.inf], np.float32))
    np.testing.assert_array_equal(found, [0, np.nan, np.nan, np.nan])


@pytest.mark.parametrize("op", ["add", "logistic_gradient"])
def test_a_value_that_is_not_subtracted_from_itself_is_appended(op: str, gpu: str) -> None:
    """The gradient of logistic() has a minus of its own: a b (1 - b)."""
    model = Model("stays")
    y = add(model, "abs", model.input("x", float32(4)))
    model.output(add(model, op, y, y))
    with model.compile(gpu) as compiled:
        assert dispatches(compiled) == [f"abs+{op}"]
