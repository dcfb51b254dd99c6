"""Every fusion, by the names of its ops in their order."""

from __future__ import annotations

from gpunn.ops.contraction import separable
from gpunn.ops.fusion import Fusion
from gpunn.ops.normalization import attention

FUSIONS: dict[tuple[str, ...], Fusion] = {
    tuple(op.name for op in f.ops): f for f in (separable.FUSION, *attention.FUSIONS)
}
