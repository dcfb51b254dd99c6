"""Forms in which converters write an operation: what passes need that look for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, before_reshapes
from gpunn.ops import OPS
from gpunn.ops.op import Op

ADD, SUB, MUL, NEG = (OPS[name] for name in ("add", "sub", "mul", "neg"))
LOGISTIC, TANH = (OPS[name] for name in ("logistic", "tanh"))


def readers_of(model: Graph) -> Mapping[Operand | None, int]:
    """Return for each operand how often it is read, by operations and as a result of the model."""
    found = Counter(operand for operation in model.operations for operand in operation.inputs)
    found.update(model.results)
    return found


def pairs(operation: Operation) -> Iterator[tuple[Operand, Operand]]:
    """Yield both inputs of an operation, and in the other order where that makes no difference."""
    a, b = operation.inputs
    assert a is not None and b is not None
    yield a, b
    if operation.definition in (ADD, MUL):
        yield b, a


def written_by(writers: Writers, operand: Operand | None, *ops: Op) -> Operation | None:
    """Return the operation that computes an operand, if it is of one of these ops."""
    writer = writers.get(operand)
    plain = writer is not None and writer.definition in ops and writer.attrs.get("activation") is None
    return writer if plain else None


def number(operand: Operand | None) -> float | None:
    """Return the value of a constant with one element."""
    if operand is None or operand.value is None or operand.value.size != 1:
        return None
    return float(operand.value.reshape(()))


def negated(writers: Writers, operand: Operand) -> Iterator[Operand]:
    """Yield what an operand is the negative of."""
    if (negative := written_by(writers, operand, NEG)) is not None and negative.inputs[0] is not None:
        yield negative.inputs[0]
    product = written_by(writers, operand, MUL)
    yield from () if product is None else (a for a, b in pairs(product) if number(b) == -1)


def alone(
    writers: Writers, last: Operation, ends: Sequence[Operand | None], readers: Mapping[Operand | None, int]
) -> bool:
    """Tell whether nothing else reads what lies between these ends and the last operation."""
    between, left = dict[Operation, None](), [last]
    while left:
        for operand in left.pop().inputs:
            writer = None if operand in ends else writers.get(operand)
            if writer is not None and writer not in between:
                between[writer] = None
                left.append(writer)
    reads = Counter(o for operation in (*between, last) for o in operation.inputs)
    return all(readers[o] == reads[o] for operation in between for o in operation.outputs)


def written_behind_reshapes(writers: Writers, operand: Operand | None, *ops: Op) -> Operation | None:
    """Return the operation of one of these ops that computes an operand, or what that is a reshape of.

    Reshapes leave elements in order, and converters write them in many places: PyTorch's reductions do not
    keep the dimension, so one follows that adds it again.
    """
    return written_by(writers, before_reshapes(writers, operand), *ops)


def beside_rows(x: Operand | None, axes: tuple[int, ...], operand: Operand | None) -> bool:
    """Tell whether an operand has one number for each row of x along axes, as broadcast to its elements."""
    if x is None or operand is None:
        return False
    shape, rank = operand.type.shape, x.type.rank
    beside = tuple(1 if d in axes else n for d, n in enumerate(x.type.shape))
    return len(shape) <= rank and (1,) * (rank - len(shape)) + shape == beside
