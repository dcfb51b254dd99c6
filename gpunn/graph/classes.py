"""Classes: what a classifier tells apart, and its answer by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpunn.errors import ModelError
from gpunn.graph.operation import Operand
from gpunn.ops.fixed_point.affine import dequantize
from gpunn.types import Array


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a classifier.

    `labels` are their names, str or int as the file has them. `scores` is the name of the output with a score
    for each, `best` what the file calls the label of the best class, which is no output.
    """

    labels: tuple[str | int, ...]
    scores: str
    best: str

    def named(self, scores: Array, output: Operand) -> tuple[str | int, dict[str | int, float]]:
        """Return the best label, the first of equal ones, and a dictionary from labels to scores.

        `scores` is what a run gave for `output`. Raises ModelError unless there is one score for each label.
        """
        if scores.size != len(self.labels):
            raise ModelError(
                f"output {output.name!r} has {scores.size} scores, the model has {len(self.labels)} classes"
            )
        reals = dequantize(scores, output.type.with_shape(scores.shape)).reshape(-1)
        return self.labels[int(reals.argmax())], dict(zip(self.labels, map(float, reals), strict=True))


def only_scores(labels: Sequence[str], outputs: Sequence[Operand]) -> Classes | None:
    """Return the classes of a model whose one output has a score for each label; None for another model."""
    if len(outputs) != 1 or not labels or outputs[0].type.size != len(labels):
        return None
    return Classes(tuple(labels), outputs[0].name, "label")
