"""Whole models side by side: every sample on every side; outputs and best classes compared pair by pair."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from gpunn import vision
from gpunn.comparison.classes import TOP, Accuracy, AccuracyTally, AgreementTally, best_classes
from gpunn.comparison.inputs import Sample
from gpunn.comparison.metrics import Health, Tally, health
from gpunn.comparison.result import Answer, OutputPair, Pair
from gpunn.comparison.sides import Arithmetic, Side, reals
from gpunn.errors import ModelError, UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.tolerance import stored
from gpunn.types import Array
from gpunn.vision import Guess

MAX_ANSWERS = 64  # inputs whose best classes are kept for show; and as many more on which sides differ

Drift = Mapping[Arithmetic, Mapping[Operand, float]]


def class_count(model: Graph, labels: Sequence[str]) -> int | None:
    """Return the number of classes if the model classifies photos or `labels` name its scores; else None."""
    shape = model.outputs[0].open if model.outputs else None
    if shape is not None and (shape.extents is None or shape.extents[-1:] == (None,)):
        return None
    try:
        return vision.score_output(model).classes
    except (ModelError, UnsupportedError):
        scores = model.outputs[0].type if len(model.outputs) == 1 else None
        named = scores is not None and scores.rank > 0 and scores.shape[-1] == scores.size == len(labels)
        return len(labels) if named and len(labels) > 1 else None


class WholeRun:
    """A run of samples on all sides, with the sums of their answers."""

    def __init__(
        self, model: Graph, sides: Sequence[Side], labels: Sequence[str], tolerance: float | None
    ) -> None:
        self._model = model
        self._sides = sides
        self._labels = labels
        self._tolerance = tolerance
        self._classes = class_count(model, labels)
        self._pairs = [_PairTally(model, a, b) for a, b in itertools.combinations(range(len(sides)), 2)]
        self._health = [[Health() for _ in model.outputs] for _ in sides]
        self._accuracy = [AccuracyTally() for _ in sides]
        self._answers: list[Answer] = []
        self.samples = 0

    def add(self, sample: Sample) -> None:
        """Run one sample on all sides."""
        results = [side.run(sample) for side in self._sides]
        types = [o.type for o in self._model.outputs]
        values = [[reals(v, t) for v, t in zip(found, types, strict=True)] for found in results]
        for number, outputs in enumerate(values):
            self._health[number] = [h + health(v) for h, v in zip(self._health[number], outputs, strict=True)]
        best = self._best(values, len(sample.names))
        for pair in self._pairs:
            pair.add(results, values, best)
        if best and sample.truth:
            for tally, rows in zip(self._accuracy, best, strict=True):
                tally.add(rows, sample.truth)
        if best:
            self._keep(self._answered(sample, values, best))
        self.samples += 1

    def _best(self, values: Sequence[Sequence[Array]], rows: int) -> list[Array]:
        """Return for each side the best classes of each row; nothing if the model is not a classifier."""
        if self._classes is None:
            return []
        return [best_classes(outputs[0].reshape(-1, self._classes)[:rows], TOP) for outputs in values]

    def _keep(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            wanted = MAX_ANSWERS if answer.unanimous else 2 * MAX_ANSWERS
            if len(self._answers) < wanted:
                self._answers.append(answer)

    def _answered(
        self, sample: Sample, values: Sequence[Sequence[Array]], best: Sequence[Array]
    ) -> Iterable[Answer]:
        for row, name in enumerate(sample.names):
            guesses = {}
            for side, outputs, rows in zip(self._sides, values, best, strict=True):
                scores = outputs[0].reshape(-1, self._classes or 1)[row]
                guesses[side.info.name] = tuple(
                    Guess(int(c), self._label(int(c)), float(scores[c])) for c in rows[row]
                )
            truth = self._label(sample.truth[row]) if sample.truth else None
            photo = str(sample.photos[row]) if sample.photos else ""
            yield Answer(name, photo, truth, guesses)

    def _label(self, number: int) -> str:
        return self._labels[number] if number < len(self._labels) else f"class {number}"

    def pairs(self, drift: Drift) -> tuple[Pair, ...]:
        """Return all pairs so far. The tolerance of an output is the possible effect of rounding on both
        sides.
        """
        return tuple(pair.pair(self._sides, self._health, drift, self._tolerance) for pair in self._pairs)

    def accuracy(self) -> tuple[Accuracy, ...]:
        """Return each side's accuracy; empty if no truth is known."""
        pairs = zip(self._sides, self._accuracy, strict=True)
        return tuple(tally.accuracy(side.info.name) for side, tally in pairs if tally.count)

    def answers(self) -> tuple[Answer, ...]:
        """Return every side's best classes for the first inputs, and for the first inputs on which sides
        differ.
        """
        return tuple(self._answers)


class _PairTally:
    """The sums of two sides, given by their numbers."""

    def __init__(self, model: Graph, first: int, second: int) -> None:
        self._outputs = model.outputs
        self._shapes = [o.type.shape for o in model.outputs]
        self._sides = first, second
        self._tallies = [Tally() for _ in model.outputs]
        self._agreement = AgreementTally()

    def add(
        self,
        results: Sequence[tuple[Array, ...]],
        values: Sequence[Sequence[Array]],
        best: Sequence[Array],
    ) -> None:
        a, b = self._sides
        for k, (operand, tally) in enumerate(zip(self._outputs, self._tallies, strict=True)):
            first, second = results[a][k], results[b][k]
            self._shapes[k] = first.shape
            tally.add(values[a][k], values[b][k])
            if stored(operand.type) and (first.dtype, first.shape) == (second.dtype, second.shape):
                tally.add_steps(first, second)
        if best:
            self._agreement.add(best[a], best[b])

    def pair(
        self,
        sides: Sequence[Side],
        found: Sequence[Sequence[Health]],
        drift: Drift,
        tolerance: float | None,
    ) -> Pair:
        a, b = (sides[number].info for number in self._sides)
        outputs = []
        for k, (operand, tally) in enumerate(zip(self._outputs, self._tallies, strict=True)):
            allowed = tolerance
            if allowed is None:
                allowed = _allowed(operand, (a.arithmetic, b.arithmetic), drift)
            outputs.append(
                OutputPair(
                    operand.name,
                    operand.type.dtype.value,
                    self._shapes[k],
                    stored(operand.type),
                    tally.metrics(),
                    found[self._sides[0]][k],
                    found[self._sides[1]][k],
                    allowed,
                )
            )
        return Pair(a.name, b.name, tuple(outputs), self._agreement.agreement())


def _allowed(operand: Operand, arithmetics: Iterable[Arithmetic], drift: Drift) -> float | None:
    """Return the sum of both sides' tolerances; None if one of them has none."""
    total = 0.0
    for arithmetic in arithmetics:
        if arithmetic is not Arithmetic.EXACT:
            if arithmetic not in drift:
                return None
            total += drift[arithmetic].get(operand, 0.0)
    return total
