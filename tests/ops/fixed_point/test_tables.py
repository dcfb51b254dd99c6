"""Tables of 256 results on a GPU: an invocation of software looks up several fours of a large tensor."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.ops.fixed_point import tables
from gpunn.types import DType, Quantization, TensorType
from tests.ops.harness import as_software, limit_device


@pytest.mark.parametrize("software", [True, False])
@pytest.mark.parametrize("op", ["tanh", "quantize"])
@pytest.mark.parametrize("beyond", [-5, 0, 3, 33])
def test_large_tensors_have_the_bits_of_the_cpu(
    op: str, beyond: int, software: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes around that from which on invocations look up several fours; the last group is not full.

    What is quantised anew rounds halves in one way up to an element, and in another one behind it.
    """
    as_software(monkeypatch) if software else limit_device(monkeypatch, software=False)
    size = 4 * tables._MANY + beyond
    to = Quantization((1 / 128,), (0,)) if op == "tanh" else Quantization((0.1,), (3,))
    model = Model("table")
    x = model.input("x", TensorType(DType.INT8, (size,), Quantization((0.05,), (-2,))))
    attrs = {} if op == "tanh" else {"dtype": "int8", "scale": to.scale[0], "zero_point": to.zero_point[0]}
    model.output(*model.add(op, [x], attrs, quantization=[to]))
    values = np.random.default_rng(0).integers(-128, 128, size).astype(np.int8)
    with model.compile("cpu") as cpu, model.compile(gpu) as compiled:
        (row,) = compiled.plan_rows()
        assert row.kernel.params["each"] == (8 if software and beyond >= -3 else 1)
        np.testing.assert_array_equal(compiled(values), cpu(values), strict=True)
