"""Every op by name, gathered from the families: one package a family, one OPS a module."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

from gpunn.ops.op import Op

_FAMILIES = (  # those that most models have first
    "elementwise.unary",
    "elementwise.binary",
    "contraction.conv",
    "contraction.matmul",
    "reduction.pool",
    "reduction.reduce",
    "normalization.normalize",
    "normalization.layer",
    "movement.basic",
    "elementwise.cast",
    "elementwise.quantize",
    "elementwise.select",
    "movement.strided_slice",
    "movement.split",
    "movement.create",
    "movement.rearrange",
    "vision.resize",
    "contraction.transpose_conv",
    "contraction.batch_matmul",
    "indexing.gather",
    "control",
    "elementwise.lut",
    "elementwise.slopes",
    "elementwise.several",
    "elementwise.rotary",
    "reduction.order",
    "indexing.slices",
    "recurrent.lstm",
    "recurrent.rnn",
    "recurrent.recurrence",
    "recurrent.gru_reset_after",
    "movement.repeat",
    "movement.roll",
    "movement.dilate",
    "movement.matrix",
    "vision.detection",
    "vision.crop",
    "vision.suppression",
    "vision.warp",
    "vision.poses",
    "indexing.find",
    "indexing.scatter",
    "indexing.place",
    "indexing.segment",
    "indexing.embeddings",
    "indexing.lookup",
    "reduction.scan",
    "reduction.window",
    "reduction.spread",
    "reduction.pool_position",
    "contraction.conv3d",
    "contraction.transpose_conv3d",
    "contraction.dot_general",
    "contraction.filter_gradient",
    "elementwise.complex64",
    "signal.rfft",
    "signal.spectrogram",
    "signal.mfcc",
    "random",
    "text",
)


class _Table(MutableMapping[str, Op]):
    """Ops by name. A name that is not known yet imports families in their order, until one has it."""

    def __init__(self) -> None:
        self._known: dict[str, Op] = {}
        self._gathered = 0  # families, in their order

    def __getitem__(self, name: str) -> Op:
        while name not in self._known and self._gathered < len(_FAMILIES):
            self._gather(self._gathered)
        return self._known[name]

    def __setitem__(self, name: str, op: Op) -> None:
        self._known[name] = op

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, Op]:
        while self._gathered < len(_FAMILIES):
            self._gather(self._gathered)
        return self._known

    def _gather(self, number: int) -> None:
        """Import a family; several threads may do so at once."""
        family = import_module(f"gpunn.ops.{_FAMILIES[number]}")
        self._known.update({op.name: op for op in family.OPS})
        self._gathered = max(self._gathered, number + 1)


OPS = _Table()
