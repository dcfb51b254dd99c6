"""Results of the same operations on one device, in different dispatches."""

from __future__ import annotations

import numpy as np

from gpunn.backends.webgpu.device import open_device
from gpunn.types import Array

CLOSE = 1e-5  # as the recurrent layers of these tests are compared with the CPU backend


def assert_same_bits(y: Array, z: Array) -> None:
    """Assert that both have the same bits.

    WGSL lets a compiler contract the terms of a sum, in each shader otherwise. Mesa 22.3 does not;
    of drivers that may, reals must only be as near as those of two backends.
    """
    assert (y.dtype, y.shape) == (z.dtype, z.shape)
    if y.dtype.kind == "f" and "Mesa 22.3" not in open_device(None, False).info.driver:
        np.testing.assert_allclose(y, z, rtol=CLOSE, atol=CLOSE)
    else:
        np.testing.assert_array_equal(y, z)
