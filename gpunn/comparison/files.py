"""Two files of one model: the other file beside the model, as a whole and tensor by tensor.

Two tensors match if they have the same name and shape. The remaining tensors match by the order of the
operations that compute them, with activation and shape. Both models are computed exactly, in turn, and a
tensor is kept until its match has been computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from gpunn import vision
from gpunn.comparison.convert import Scale, arranged, converted, photo_inputs
from gpunn.comparison.exact import evaluations, start
from gpunn.comparison.inputs import Sample, completed
from gpunn.comparison.metrics import Tally
from gpunn.comparison.parts import exact_parts, joined, run_parts
from gpunn.comparison.result import LayerPair
from gpunn.comparison.sides import Arithmetic, SideInfo, reals
from gpunn.errors import ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.types import Array

MAX_ORDERED = 2000  # operations of a model up to which they are compared by order, which takes their square


class OtherFileSide:
    """Another file of the same model, computed exactly; inputs and outputs match by their order.

    It may be as far away as float32 arithmetic, because a conversion of weights rounds in the same way. If
    either model is quantised, or has shapes that depend on values, no tolerance can be stated.

    Photos are read again in the form that this model takes. Arrays are used unchanged if dtype and
    quantisation are the same; otherwise their real values are converted (gpunn.comparison.convert).
    """

    def __init__(self, name: str, model: Graph, other: Graph, scale: tuple[Scale, Scale]) -> None:
        """Take `scale`, how the model and the other one want pixels."""
        exact = not any(_quantised(m) or m.pending for m in (model, other))
        arithmetic = Arithmetic.FLOAT32 if exact else Arithmetic.OTHER
        self.info = SideInfo(name, other.name, "numpy, float64", arithmetic)
        self._model, self._other = model, other
        self._scale = scale[1]
        self._photos = photo_inputs(model, other, scale)
        for role in ("inputs", "outputs"):
            ours, theirs = (getattr(m, role) for m in (model, other))
            if not _alike(role, model, other):
                shapes = [", ".join(str(o.type) for o in operands) for operands in (ours, theirs)]
                raise ModelError(
                    f"the {role} of {other.name} are {shapes[1]}, those of {model.name} {shapes[0]}"
                )

    def run(self, sample: Sample) -> tuple[Array, ...]:
        found = run_parts(self._other, self._arrays(sample))
        pairs = zip(found, self._other.outputs, self._model.outputs, strict=True)
        return tuple(self._fitting(reals(y, theirs.type), ours) for y, theirs, ours in pairs)

    def _fitting(self, value: Array, output: Operand) -> Array:
        """Return a value in the shape of the model's output, if that shape is known."""
        if not _is_known(output, self._model):
            return value
        if value.size != output.type.size:
            shape = list(value.shape)
            raise ModelError(f"output {output.name!r} is {output.type}, {self._other.name} gives {shape}")
        return arranged(value, output.type.shape)

    def close(self) -> None:
        pass

    def _arrays(self, sample: Sample) -> tuple[Array, ...]:
        """Return the sample in the form that the other model takes."""
        return completed(self._other, self._given(sample))

    def _given(self, sample: Sample) -> list[Array]:
        """Return the inputs that must be given; the others have their defaults in both models."""
        if sample.photos:
            photo = vision.photo_input(self._other, self._scale.mean, self._scale.std)
            values = (photo.values(vision.load_photo(path)) for path in sample.photos)
            return [next(photo.batches(values))]
        pairs = zip(sample.arrays, self._model.inputs, strict=True)
        given = [(value, operand.type) for value, operand in pairs if operand.default is None]
        if self._photos:
            ours, theirs = self._photos
            return [theirs.stored(arranged(ours.pixels(given[0][0]), theirs.type.shape))]
        wanted = vision.mandatory(self._other)
        return [converted(v, have, want.type) for (v, have), want in zip(given, wanted, strict=True)]

    def layer_pairs(self, sample: Sample) -> tuple[LayerPair, ...]:
        """Compare the matching tensors of both models, for one sample."""
        ours = joined(exact_parts(self._model, sample.arrays))
        theirs = joined(exact_parts(self._other, self._arrays(sample)))
        pairs = paired(ours, theirs)
        mates = {b: a for a, b, _ in pairs}
        wanted = set(mates.values())
        kept: dict[Operand, Array] = {}
        tallies: dict[Operand, Tally] = {}
        first = _tensors(ours, sample.arrays)
        for operand, value in _tensors(theirs, self._arrays(sample)):
            mate = mates.get(operand)
            while mate is not None and mate not in kept:
                found, computed = next(first)
                if found in wanted:
                    kept[found] = computed
            if mate is not None:
                tallies[mate] = Tally()
                ours_now = reals(kept.pop(mate), mate.type)
                tallies[mate].add(ours_now, reals(value, operand.type).reshape(ours_now.shape))
        return tuple(LayerPair(by, a.name, b.name, a.type.shape, tallies[a].metrics()) for a, b, by in pairs)


def _quantised(model: Graph) -> bool:
    return any(o.type.quantization is not None for operation in model.operations for o in operation.outputs)


def _alike(role: str, model: Graph, other: Graph) -> bool:
    """Tell whether inputs or outputs can be compared element by element, as far as their shapes are known."""
    ours, theirs = ([o for o in getattr(m, role) if o.default is None] for m in (model, other))
    if len(ours) != len(theirs):
        return False
    pairs = zip(ours, theirs, strict=True)
    return all(a.type.size == b.type.size for a, b in pairs if _is_known(a, model) and _is_known(b, other))


def _is_known(operand: Operand, model: Graph) -> bool:
    """Tell whether the shape of an input or output is known before a run."""
    shape = operand.open
    if shape is None or shape.extents is None:
        return shape is None
    return not shape.is_open or not model.pending or operand in model.inputs


def _tensors(model: Graph, arrays: Sequence[Array]) -> Iterator[tuple[Operand, Array]]:
    """Yield every tensor that a model computes, in order."""
    values = start(model, arrays)
    for operation in evaluations(model, values):
        yield from ((operand, values[operand]) for operand in operation.outputs)


def paired(first: Graph, second: Graph) -> list[tuple[Operand, Operand, str]]:
    """Return the matching tensors of two models, in the second's order, and what they match by: "name" or
    "order".
    """
    ours, theirs = _results(first), _results(second)
    names = _by_name(ours)
    by_name = {
        b: names[b.name]
        for b in _by_name(theirs).values()
        if b.name in names and names[b.name].type.shape == b.type.shape
    }
    taken = set(by_name.values())
    rest = {o: key for o, key in ours.items() if key and o not in taken}
    others = {o: key for o, key in theirs.items() if key and o not in by_name}
    by_order: dict[Operand, Operand] = {}
    if max(len(rest), len(others)) <= MAX_ORDERED:
        matcher = SequenceMatcher(None, list(rest.values()), list(others.values()), autojunk=False)
        a, b = list(rest), list(others)
        for block in matcher.get_matching_blocks():
            for k in range(block.size):
                by_order[b[block.b + k]] = a[block.a + k]
    found = [(by_name.get(o) or by_order.get(o), o, "name" if o in by_name else "order") for o in theirs]
    return [(a, b, by) for a, b, by in found if a is not None]


def _results(model: Graph) -> dict[Operand, tuple[object, ...] | None]:
    """Map every operation's results to what matching results have in common: op, activation, and shape.

    Extents of 1 do not count, because formats put them in different places. Results that only move elements
    match by name alone, so they map to None.
    """
    found: dict[Operand, tuple[object, ...] | None] = {}
    for operation in model.operations:
        key = operation.op, operation.attrs.get("activation")
        moves = operation.definition.algebra.permutes
        for operand in operation.outputs:
            found[operand] = None if moves else (*key, *(n for n in operand.type.shape if n != 1))
    return found


def _by_name(operands: Mapping[Operand, object]) -> dict[str, Operand]:
    """Return the operands whose names are unique, by name."""
    count = Counter(o.name for o in operands)
    return {o.name: o for o in operands if count[o.name] == 1}
