"""Integer LSTM and SVDF: the bits of LiteRT over several runs, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError, UnsupportedError
from gpunn.model import Model, load
from gpunn.ops.fixed_point.affine import dequantize
from gpunn.types import DType, Quantization, TensorType
from tests.ops.quantized import quantized, stored
from tests.tflite_builder import ABSENT, Graph, litert_runs

SEQUENCE = "UNIDIRECTIONAL_SEQUENCE_LSTM"
BATCH, STEPS, DEPTH, UNITS = 2, 4, 6, 5
CELL = 2.0**-11  # the scale of the cell state


def integer_lstm(
    operator: str = SEQUENCE,
    *,
    width: int | None = None,
    cifg: bool = False,
    peephole: bool = False,
    norm: bool = False,
    cell: float = CELL,
    zero: int = 3,
    intermediates: int = 5,
    sums: float = 2.0**-12,
    seed: int = 0,
    **options: Any,
) -> tuple[bytes, TensorType]:
    """Return a file of the operator, with output and cell state as results, and the type of its input.

    `width`: of the projection, `zero`: below it, `sums`: the scale of what is normalised.
    """
    generator, graph, out = np.random.default_rng(seed), Graph(), width or UNITS
    shape = (BATCH, DEPTH) if operator == "LSTM" else (BATCH, STEPS, DEPTH)
    shape = (STEPS, BATCH, DEPTH) if options.get("time_major") else shape
    x, y = quantized(DType.INT8, shape, 0.02, 7), quantized(DType.INT8, (*shape[:-1], out), 0.01, -5)

    def constant(dtype: DType, shape: tuple[int, ...], step: float, most: int, there: bool = True) -> int:
        value = generator.integers(-most, most + 1, shape).astype(dtype.numpy)
        return graph.tensor(quantized(dtype, shape, step), data=value.tobytes()) if there else ABSENT

    gates = [k != 0 or not cifg for k in range(4)]
    inputs, bias = [graph.input(x)], 2_000_000 if norm else 20_000
    inputs += [constant(DType.INT8, (UNITS, DEPTH), 0.004 * k, 127, gates[k - 1]) for k in range(1, 5)]
    inputs += [constant(DType.INT8, (UNITS, out), 0.004 * k, 127, gates[k - 2]) for k in range(2, 6)]
    inputs += [constant(DType.INT16, (UNITS,), 2e-5, 32767, peephole and gates[k]) for k in (0, 1, 3)]
    inputs += [constant(DType.INT32, (UNITS,), 1e-4, bias, gates[k]) for k in range(4)]
    inputs.append(constant(DType.INT8, (out, UNITS), 0.0023, 127, width is not None))
    inputs.append(constant(DType.INT32, (out,), 8e-5, 5000, width is not None))
    inputs.append(graph.tensor(quantized(DType.INT8, (BATCH, out), 0.01, -5), is_variable=True))
    inputs.append(graph.tensor(quantized(DType.INT16, (BATCH, UNITS), cell), is_variable=True))
    inputs += [constant(DType.INT16, (UNITS,), 5e-4, 6500, norm and gates[k]) for k in range(4)]
    hidden = quantized(DType.INT8, (0,), 0.008, zero) if width else quantized(DType.INT8, (0,), 0.01, -5)
    kinds = [*(quantized(DType.INT16, (0,), sums * k) for k in range(1, intermediates)), hidden]
    if intermediates == 12:  # three for each gate: joined, of the input, of the output state
        dtypes = [DType.INT8 if k % 3 else DType.INT16 for k in range(12)]
        kinds = [quantized(t, (0,), sums * (9 + k), k % 3 * (k - 5)) for k, t in enumerate(dtypes)]
    between = [graph.tensor(kind) for kind in kinds]
    options = {"fused_activation_function": "TANH", **options}
    made = graph.add(operator, inputs, [y], options, version=3, intermediates=between)
    return graph.build([*made, inputs[19]]), x


EIGHT = {"operator": "LSTM", "norm": True, "cifg": True, "width": 60, "intermediates": 12, "cell": 2.0**-15}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "one step": {"operator": "LSTM"},
    "time first": {"time_major": True},
    "without input gate": {"cifg": True},
    "peepholes": {"peephole": True},
    "projection": {"width": 3},
    "projection of a far zero point": {"width": 7, "zero": 40},
    "projection and peepholes": {"width": UNITS, "peephole": True, "proj_clip": 0.3},
    "clipped": {"cell_clip": 0.5},
    "cell state below 1": {"cell": 2.0**-15},
    "cell state up to 64": {"cell": 2.0**-9},
    "normalised": {"norm": True},
    "normalised, one step": {"norm": True, "operator": "LSTM", "sums": 2e-5},
    "normalised, without input gate": {"norm": True, "cifg": True, "peephole": True, "sums": 3e-4},
    "normalised, all there is": {"norm": True, "peephole": True, "width": UNITS, "cell_clip": 0.5},
    "products of 8 bits": {**EIGHT, "sums": 0.002},
    "products of 8 bits, clipped": {**EIGHT, "sums": 0.001, "proj_clip": 0.3, "cell_clip": 0.2},
    "normalised, hardly any variance": {"norm": True, "sums": 0.4},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_integer_lstm_has_the_bits_of_litert(variant: dict[str, Any]) -> None:
    for seed in range(3):
        check_bits(variant, seed, "cpu", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
    check_bits(variant, 0, "cpu", "BUILTIN_REF")


@pytest.mark.parametrize(
    ("activation", "name"), [("RELU", "relu"), ("RELU6", "relu6"), ("SIGN_BIT", "sign_bit"), ("NONE", "none")]
)
@pytest.mark.parametrize("variant", ["plain", "one step", "products of 8 bits"])
def test_integers_have_the_activation_tanh_only(variant: str, activation: str, name: str) -> None:
    stated = {**VARIANTS[variant], "fused_activation_function": activation}
    check_bits(stated, 0, "cpu", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
    (warning,) = load(integer_lstm(**stated)[0]).warnings
    assert f": the activation is {name}, but on integers it is TANH, as in LiteRT" in warning
    assert load(integer_lstm(**VARIANTS[variant])[0]).warnings == ()


def test_integer_lstm_runs_in_a_plan_of_the_gpu(gpu: str) -> None:
    check_bits(VARIANTS["projection"], 0, gpu, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")


def check_bits(variant: dict[str, Any], seed: int, backend: str, resolver: str) -> None:
    file, x = integer_lstm(**variant, seed=seed)
    runs = [[stored(10 * seed + k, x)] for k in range(4)]
    expected = litert_runs(file, [*runs, None, *runs], resolver)
    with load(file).compile(backend=backend) as compiled:
        found = [compiled(*frame) for frame in runs]
        compiled.reset_state()
        found += [compiled(*frame) for frame in runs]
    assert len(np.unique([y for y, _ in found])) > 20, "some results are not clamped"
    np.testing.assert_equal([list(results) for results in found], expected)


def basic_lstm(
    batch: int, depth: int, units: int, *, zero: int = 128, scale: float = 0.02, seed: int = 0
) -> tuple[bytes, TensorType]:
    """Return a file of the kernel BASIC, from the weights' zero point and scale, and its input's type."""
    generator, graph = np.random.default_rng(seed), Graph()
    x, y = (quantized(DType.UINT8, (batch, n), 2.0**-7, 128) for n in (depth, units))
    w = quantized(DType.UINT8, (4 * units, depth + units), scale, zero)
    bias = quantized(DType.INT32, (4 * units,), scale / 128)
    c = quantized(DType.INT16, (batch, units), 2.0**-11)
    inputs = [graph.input(x), graph.tensor(y, is_variable=True)]
    inputs.append(graph.tensor(w, data=stored(seed, w).tobytes()))
    inputs.append(graph.tensor(bias, data=generator.integers(-8000, 8000, bias.shape, np.int32).tobytes()))
    inputs.append(graph.tensor(c, is_variable=True))
    outputs = [
        y,
        c,
        x.with_shape((batch, depth + units)),
        quantized(DType.INT16, (batch, 4 * units), 2.0**-12),
    ]
    options = {"fused_activation_function": "TANH", "kernel_type": 1}
    return graph.build(graph.add("LSTM", inputs, outputs, options, version=2)), x


@pytest.mark.parametrize("sizes", [(1, 4, 3), (3, 17, 9), (2, 1, 33)])
@pytest.mark.parametrize(("zero", "scale"), [(128, 0.02), (0, 0.003), (255, 0.01)])
def test_basic_lstm_has_the_bits_of_litert(sizes: tuple[int, int, int], zero: int, scale: float) -> None:
    """Compare all four results; LiteRT's output state begins as stored zeros."""
    file, x = basic_lstm(*sizes, zero=zero, scale=scale)
    runs = [[stored(seed, x)] for seed in range(5)]
    expected = litert_runs(file, [*runs, None, *runs])
    with load(file).compile(backend="cpu") as compiled:
        found = [compiled(*frame) for frame in runs]
        compiled.reset_state()
        found += [compiled(*frame) for frame in runs]
    assert len(np.unique([y for y, *_ in found])) > 10, "some results are not clamped"
    for got, wanted in zip(found, expected, strict=True):
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def check_refusal(file: bytes, position: int, type: TensorType, message: str) -> None:
    """Assert that the operation of a file refuses an input of this type."""
    (operation,) = load(file).operations
    types = [o.type for o in operation.inputs if o is not None]
    model = Model()
    operands = [model.input(f"x{k}", type if k == position else t) for k, t in enumerate(types)]
    with pytest.raises(ModelError, match=f"{operation.op}: .*{message}"):
        model.add(operation.op, operands, operation.attrs)


@pytest.mark.parametrize(
    ("position", "type", "message"),
    [
        (0, quantized(DType.UINT8, (1, 2), 0.01, 128), "scale 1/128 and zero point 128"),
        (2, quantized(DType.INT8, (12, 5), 0.02), "input 2 must be quantised uint8"),
        (3, quantized(DType.INT32, (12,), 0.02), "the bias must have the scale of input"),
        (4, quantized(DType.INT16, (1, 3), 2.0**-10), r"the cell state must have scale 2\^-11"),
    ],
)
def test_wrong_types_of_basic_lstm_are_refused(position: int, type: TensorType, message: str) -> None:
    check_refusal(basic_lstm(1, 2, 3)[0], position, type, message)


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        ({"intermediates": 12}, "has 12 intermediate tensors, only 5 are supported"),
    ],
)
def test_other_integer_forms_are_refused(variant: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{SEQUENCE} v3: .*{reason}"):
        load(integer_lstm(**variant)[0])


@pytest.mark.parametrize("change", [{"cifg": False}, {"norm": False}, {"width": None}, {"peephole": True}])
def test_products_of_8_bits_need_one_form(change: dict[str, Any]) -> None:
    """LiteRT ignores an input gate and peepholes, and crashes without the others."""
    with pytest.raises(ModelError, match=r"lstm .*with 12 intermediate tensors there must be layer normalis"):
        load(integer_lstm(**{**EIGHT, **change})[0])


def test_the_scale_of_a_cell_state_is_a_power_of_two() -> None:
    for cell in (0.0003, 2.0**-8, 2.0**-16):
        with pytest.raises(ModelError, match=r"lstm .*power of two from 2\^-15 to 2\^-9"):
            load(integer_lstm(cell=cell)[0])


@pytest.mark.parametrize(
    ("position", "type", "message"),
    [
        (
            1,
            quantized(DType.UINT8, (UNITS, DEPTH), 0.1),
            r"input 1 must be quantised int8, got uint8\[5, 6\]",
        ),
        (2, quantized(DType.INT8, (UNITS, DEPTH), 0.1, 1), "zero points of 0"),
        (
            13,
            TensorType(DType.INT16, (UNITS,), Quantization((1.0,), (0,))),
            "input 13 must be quantised int32",
        ),
        (19, quantized(DType.INT8, (BATCH, UNITS), 0.1), "input 19 must be quantised int16"),
    ],
)
def test_wrong_element_types_are_refused(position: int, type: TensorType, message: str) -> None:
    model = load(integer_lstm()[0])
    (operation,) = model.operations
    operands = list(operation.inputs)
    operands[position] = model.input("other", type)
    with pytest.raises(ModelError, match=f"lstm: .*{message}"):
        model.add("lstm", operands, operation.attrs)


def integer_svdf(
    sizes: tuple[int, int, int, int, int],
    bias: bool = True,
    scale: float = 0.04,
    dtype: DType = DType.INT16,
    zero: int = 0,
) -> tuple[bytes, TensorType]:
    """Return a file of the integer form, and its input's type; the result's scale decides on clamping.

    `dtype` of state and time weights, `zero` of the state.
    """
    batch, depth, units, rank, memory = sizes
    generator, filters = np.random.default_rng(3), units * rank
    x = quantized(DType.INT8, (batch, depth), 0.02, -3)
    graph = Graph()
    numbers = [graph.input(x)]
    short = dtype is DType.INT16
    for kind, shape, size, step in (
        (DType.INT8, (filters, depth), 127, 0.01),
        (dtype, (filters, memory), 32767 if short else 127, 2e-5 if short else 0.005),
        (DType.INT32, (units,), 2_000_000 if short else 2000, 1e-8 if short else 1e-5),
    ):
        value = generator.integers(-size, size + 1, shape).astype(kind.numpy)
        numbers.append(graph.tensor(quantized(kind, shape, step, 0), data=value.tobytes()))
    numbers[3] = numbers[3] if bias else ABSENT
    state = quantized(dtype, (batch, filters * memory), 0.0005 if short else 0.1, zero)
    numbers.append(graph.tensor(state, is_variable=True))
    options = {"rank": rank, "fused_activation_function": "RELU"}
    y = quantized(DType.INT8, (batch, units), scale, -128)
    return graph.build(graph.add("SVDF", numbers, [y], options, version=3)), x


@pytest.mark.parametrize("sizes", [(1, 4, 3, 1, 2), (3, 9, 17, 2, 6), (2, 30, 5, 3, 1)])
@pytest.mark.parametrize(("bias", "scale"), [(True, 0.04), (False, 0.01)])
@pytest.mark.parametrize("resolver", ["BUILTIN_WITHOUT_DEFAULT_DELEGATES", "BUILTIN_REF"])
def test_integer_svdf_has_the_bits_of_litert(
    sizes: tuple[int, int, int, int, int], bias: bool, scale: float, resolver: str, backend: str
) -> None:
    file, x = integer_svdf(sizes, bias, scale)
    runs = [[stored(seed, x)] for seed in range(8)]
    expected = litert_runs(file, [*runs, None, *runs], resolver)
    with load(file).compile(backend=backend) as compiled:
        found = [compiled(*frame) for frame in runs]
        compiled.reset_state()
        found += [compiled(*frame) for frame in runs]
    assert len(np.unique(found)) > 5, "some results are not clamped"
    np.testing.assert_array_equal(found, [y for (y,) in expected])


def test_integer_svdf_with_a_state_of_int8_is_near_the_real_one(backend: str) -> None:
    """TFLite Micro has this form, LiteRT takes the integers of the time weights for int16.

    Each entry is rounded to steps of 0.1 and so off by 0.05 at most, then weighed and added up over a memory
    of 6; the result is rounded once more.
    """
    sizes = (3, 9, 17, 2, 6)
    file, x = integer_svdf(sizes, scale=0.2, dtype=DType.INT8, zero=-9)
    model = load(file)
    _, features, time, bias, _ = (o for o in model.operations[0].inputs if o is not None)
    reals = [dequantize(o.value, o.type) for o in (features, time) if o.value is not None]
    assert bias.value is not None
    state = np.zeros((3, 34, 6))
    allowed = 0.05 * np.abs(reals[1]).reshape(17, 12).sum(1) + 0.1
    with model.compile(backend=backend) as compiled:
        for seed in range(8):
            frame = stored(seed, x) // 8 - 3  # so that no entry is clamped
            newest = dequantize(frame, x) @ reals[0].T
            assert np.abs(newest).max() < 0.1 * 118
            state = np.concatenate([state[:, :, 1:], newest[:, :, None]], axis=2)
            sums = (state * reals[1]).sum(2).reshape(3, 17, 2).sum(2) + bias.value * 0.1 * 0.005
            result = (compiled(frame).astype(float) + 128) * 0.2
            assert (np.abs(result - np.clip(sums, 0, 51)) <= allowed * 1.01).all()
            assert np.ptp(result) > 1


@pytest.mark.parametrize(
    ("position", "type", "message"),
    [
        (1, quantized(DType.UINT8, (3, 4), 0.01), "input 1 must be quantised int8"),
        (2, quantized(DType.INT16, (3, 2), 2e-5, 1), "zero points of 0"),
        (4, TensorType(DType.INT16, (1, 6)), "input 4 must be quantised int16"),
        (4, quantized(DType.INT16, (1, 6), 0.0005, 1), "a state of int16 must have zero points of 0"),
        (4, quantized(DType.INT8, (1, 6), 0.0005), "input 2 must be quantised int8"),
        (2, quantized(DType.INT8, (3, 2), 2e-5), "input 2 must be quantised int16"),
    ],
)
def test_wrong_types_of_integer_svdf_are_refused(position: int, type: TensorType, message: str) -> None:
    check_refusal(integer_svdf((1, 4, 3, 1, 2))[0], position, type, message)
