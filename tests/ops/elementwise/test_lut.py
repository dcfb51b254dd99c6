"""lut: a table of the results for all integers of 8 bits."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import DType, Quantization, TensorType

SCALES = Quantization((0.1,), (3,)), Quantization((0.7,), (5,))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5, 4), (0, 2)])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("scales", [SCALES, (None, None)], ids=["quantised", "plain"])
def test_entries_stand_at_the_bits(
    shape: tuple[int, ...],
    dtype: DType,
    scales: tuple[Quantization | None, Quantization | None],
    backend: str,
) -> None:
    low = np.iinfo(dtype.numpy).min
    entries = np.random.default_rng(3).permutation(256) + low
    model = Model()
    x = model.input("x", TensorType(dtype, shape, scales[0]))
    declared = [] if scales[1] is None else [scales[1]]
    model.output(*model.add("lut", [x], {"table": tuple(entries.tolist())}, quantization=declared))
    values = np.resize(np.arange(256) + low, shape).astype(dtype.numpy)
    with model.compile(backend=backend) as compiled:
        found = compiled(values)
    assert found.dtype == dtype.numpy
    expected = [entries[value % 256] for value in values.reshape(-1).tolist()]
    np.testing.assert_array_equal(found.reshape(-1), expected)


@pytest.mark.parametrize(
    ("dtype", "table"),
    [
        (DType.INT8, range(-128, 127)),
        (DType.INT8, range(256)),
        (DType.UINT8, range(-128, 128)),
        (DType.INT16, range(256)),
        (DType.FLOAT32, range(256)),
    ],
)
def test_bad_tables_and_dtypes_are_refused(dtype: DType, table: range) -> None:
    model = Model()
    with pytest.raises(ModelError, match="lut"):
        model.add("lut", [model.input("x", TensorType(dtype, (3,)))], {"table": tuple(table)})
