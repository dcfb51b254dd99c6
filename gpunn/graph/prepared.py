"""Operations made ready to run many times by their ops' references, as a list of calls on numbered values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Evaluation, Operand, Operation
from gpunn.types import Array, DType

SMALL_BYTES = 1 << 12  # of a tensor that may be kept until the end of a run, as freeing it takes time

# The values of operands, by number; None for one that is absent or not computed yet.
Values = list[Array | None]


class Step(NamedTuple):
    """An operation, and the function that computes its results among values.

    results, gone, inputs: the numbers of its results, of values that it forgets afterwards, of its operands.
    """

    operation: Operation
    run: Callable[[Values], None]
    results: Sequence[int] = ()
    gone: Sequence[int] = ()
    inputs: Sequence[int] = ()


class Joint(NamedTuple):
    """Another way to compute an operation, with those before it whose results are read here alone.

    make: makes a function of the operands in the first run.
    """

    operands: tuple[Operand, ...]
    make: Callable[[], Callable[..., Array]]
    before: tuple[Operation, ...] = ()


class PreparedGraph:
    """A graph without pending operations as a list of steps.

    `constants` are values to take instead of those of constants, for instance widened ones; `dead` are the
    operands that nothing needs after an operation; `joints` are other ways to compute some. The caller of a
    step has numpy ignore overflow and the like (numpy.errstate).
    """

    def __init__(
        self,
        graph: Graph,
        constants: Mapping[Operand, Array] | None = None,
        dead: Mapping[Operation, Sequence[Operand]] | None = None,
        joints: Mapping[Operation, Joint] | None = None,
    ) -> None:
        self._begin: Values = [None]  # number 0 stands for operands that are absent
        self._numbers: dict[Operand, int] = {}
        self._constants = constants or {}
        self.inputs = [self._fresh(i) for i in graph.inputs]
        self.variables = {v: self._fresh(v) for v in graph.variables}
        self._dead, self._joints = dead or {}, joints or {}
        included = {operation for joint in self._joints.values() for operation in joint.before}
        self.steps = [self._step(o) for o in graph.operations if o not in included]
        self.outputs = [self._result(o) for o in graph.outputs]
        self._updates = {v: self._result(o) for v, o in graph.updates.items()}

    def begin(self, inputs: Sequence[Array], variables: Mapping[Operand, Array] | None = None) -> Values:
        """Return the values that are known before the first step."""
        values = self._begin.copy()
        for number, value in zip(self.inputs, inputs, strict=True):
            values[number] = value
        if variables:
            for variable, value in variables.items():
                values[self.variables[variable]] = value
        return values

    def results(self, values: Values) -> tuple[Array, ...]:
        """Return the outputs after the last step."""
        return tuple([known(values[number]) for number in self.outputs])

    def updated(self, values: Values) -> dict[Operand, Array]:
        """Return the next values of variables after the last step."""
        return {variable: known(values[number]) for variable, number in self._updates.items()}

    def evaluate(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Run all steps, without variables; return the outputs, which may be the inputs and share memory."""
        values = self.begin(inputs)
        for step in self.steps:
            step.run(values)
        return self.results(values)

    def _fresh(self, operand: Operand) -> int:
        """Number an operand that a run gives a value; an input may stand among the inputs several times."""
        self._numbers[operand] = len(self._begin)
        self._begin.append(None)
        return self._numbers[operand]

    def _result(self, operand: Operand) -> int:
        """Return the number of a result; a constant is given as it is stored."""
        if operand.value is None:
            return self._number(operand)
        self._begin.append(operand.value)
        return len(self._begin) - 1

    def _number(self, operand: Operand | None) -> int:
        if operand is None:
            return 0
        if operand not in self._numbers:
            self._fresh(operand)
            value = self._constants.get(operand, operand.value)
            self._begin[-1] = None if value is None else np.asarray(value, order="C")
        return self._numbers[operand]

    def _step(self, operation: Operation) -> Step:
        joint = self._joints.get(operation)
        if joint is not None:
            return self._joint_step(operation, joint)
        inputs = [self._number(i) for i in operation.inputs]
        stored = [(self._fresh(o), o.type.dtype.numpy) for o in operation.outputs]
        bound, direct = operation.bound(), operation.direct()
        if bound is not None:
            run = _made_step(bound, inputs[:1], *[number for number, _ in stored])
        elif direct is not None:
            run = _direct_step(direct, inputs, [number for number, _ in stored])
        else:
            run = _stored_step(operation.prepared(), inputs, stored)
        return self._freeing(run, inputs, operation)

    def _joint_step(self, operation: Operation, joint: Joint) -> Step:
        inputs, (result,) = [self._number(i) for i in joint.operands], operation.outputs
        run = _made_step(joint.make, inputs, self._fresh(result))
        return self._freeing(run, inputs, operation, *joint.before)

    def _freeing(
        self, run: Callable[[Values], None], inputs: Sequence[int], last: Operation, *before: Operation
    ) -> Step:
        """Return the step of an operation, and of those before it that it computes, too."""
        dead = [o for operation in (last, *before) for o in self._dead.get(operation, ())]
        gone = [self._numbers[o] for o in dead if _is_large(o) and o in self._numbers]
        results = [self._numbers[o] for o in last.outputs]
        return Step(last, _freeing(run, gone) if gone else run, results, gone, inputs)


def _freeing(run: Callable[[Values], None], gone: Sequence[int]) -> Callable[[Values], None]:
    """Return a step that forgets the values of these numbers afterwards."""

    def run_and_free(values: Values) -> None:
        run(values)
        for number in gone:
            values[number] = None

    return run_and_free


def _stored_step(
    compute: Evaluation, inputs: Sequence[int], stored: Sequence[tuple[int, np.dtype[Any]]]
) -> Callable[[Values], None]:
    """Return a step of a function whose results become dense arrays of these dtypes (Operation.stored())."""
    if len(stored) == 1:
        ((only, its),) = stored

        def run_simple(values: Values) -> None:
            (result,) = compute([values[number] for number in inputs])
            values[only] = np.asarray(result, its, order="C")

        return run_simple

    def run(values: Values) -> None:
        results = compute([values[number] for number in inputs])
        for (number, dtype), result in zip(stored, results, strict=True):
            values[number] = np.asarray(result, dtype, order="C")

    return run


def _made_step(
    make: Callable[[], Callable[..., Any]], inputs: Sequence[int], result: int
) -> Callable[[Values], None]:
    """Return a step of a function of one value or two, which is made in its first run."""
    compute: Callable[..., Any] | None = None
    x, *others = inputs

    def run_unary(values: Values) -> None:
        nonlocal compute
        if compute is None:
            compute = make()
        values[result] = compute(values[x])

    def run_binary(values: Values) -> None:
        nonlocal compute
        if compute is None:
            compute = make()
        values[result] = compute(values[x], values[others[0]])

    return run_binary if others else run_unary


def _direct_step(
    compute: Callable[..., Any], inputs: Sequence[int], results: Sequence[int]
) -> Callable[[Values], None]:
    """Return a step of a function whose results are as they are stored."""
    if len(results) > 1:

        def run_several(values: Values) -> None:
            found = compute(*[values[number] for number in inputs])
            for number, result in zip(results, found, strict=True):
                values[number] = result

        return run_several
    (only,) = results
    if len(inputs) == 1:
        (x,) = inputs

        def run_unary(values: Values) -> None:
            values[only] = compute(values[x])

        return run_unary
    if len(inputs) == 2:
        a, b = inputs

        def run_binary(values: Values) -> None:
            values[only] = compute(values[a], values[b])

        return run_binary

    def run(values: Values) -> None:
        values[only] = compute(*[values[number] for number in inputs])

    return run


def _is_large(operand: Operand) -> bool:
    """Tell whether the memory of an operand should be free before the end of a run."""
    return operand.type.nbytes > SMALL_BYTES or operand.type.dtype is DType.STRING


def known(value: Array | None) -> Array:
    """Return a value that has been computed, and that nothing has forgotten."""
    assert value is not None
    return value
