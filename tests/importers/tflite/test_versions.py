"""Types that the newest versions of operators add."""

from __future__ import annotations

import numpy as np

from gpunn.model import load
from gpunn.types import DType, TensorType
from tests.ops.harness import random
from tests.tflite_builder import litert_run, single_op


def test_softmax_of_halves(backend: str) -> None:
    """LiteRT rounds every exponential and every sum to 11 bits, gpunn the results: three roundings near 1."""
    type = TensorType(DType.FLOAT16, (3, 5))
    file = single_op("SOFTMAX", [type], [type], {"beta": 1.0}, version=4)
    x = random(3, 3, 5).astype(np.float16)
    with load(file).compile(backend=backend) as compiled:
        np.testing.assert_allclose(compiled(x), litert_run(file, [x])[0], rtol=3 * 2**-11, atol=0)
