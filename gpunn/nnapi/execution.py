"""Execution and Event: one run of a compilation on buffers of the caller."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.backends.interrupt import holding
from gpunn.backends.locks import make_lock
from gpunn.errors import NnapiError, ResultCode
from gpunn.importers.nnapi.codes import OperandLifeTime, OperandType
from gpunn.nnapi.compilation import Compilation, Outcome
from gpunn.nnapi.description import Binding
from gpunn.nnapi.memory import Memory
from gpunn.nnapi.operand_types import bound_type
from gpunn.nnapi.translation import Translation
from gpunn.nnapi.values import (
    as_array,
    as_room,
    bad,
    expect_given,
    expect_index,
    expect_kind,
    from_bytes,
    translated,
)
from gpunn.types import Array, Shape

ROOM_SINCE = 29  # the first feature level at which an execution finds the dimensions of outputs


class Event:
    """The end of an execution (ANeuralNetworksEvent); several threads may wait for it.

    start_compute() makes one. Raises BAD_DATA unless `complete`, which waits for the end, can be called.
    """

    def __init__(self, complete: Callable[[], None]) -> None:
        expect_given("what completes an event", complete)
        if not callable(complete):
            bad(f"what completes an event must be a function, got {complete!r}")
        self._complete: Callable[[], None] | None = complete
        self._error: Exception | None = None
        self._lock = make_lock()

    def wait(self) -> None:
        """Block until the execution has completed; only then its outputs are written.

        Raises OP_FAILED or OUT_OF_MEMORY if it failed, in every thread that waits.
        """
        with holding(self._lock):
            if self._complete is not None:
                try:
                    self._complete()
                except Exception as error:
                    self._error = error
                self._complete = None
        if isinstance(self._error, NnapiError):
            raise NnapiError(self._error.code, self._error.message) from self._error
        if self._error is not None:
            raise self._error


@dataclass(frozen=True, slots=True)
class _Argument:
    """The setting of an input or output; `array` is None for an omitted input.

    `room`: the type leaves dimensions open, and the array is room for any shape, perhaps too little.
    """

    type: OperandType
    array: Array | None
    room: bool = False


class Execution:
    """One run of a model on inputs (ANeuralNetworksExecution).

    Buffers are referenced, not copied; do not change them until the event has been waited for. Raises
    UNEXPECTED_NULL without a compilation, BAD_STATE for one that is not finished, BAD_DATA for one that is
    invalid because its finish() failed or it was closed. Every other call raises BAD_STATE after
    start_compute(), and BAD_DATA for an index that the model does not have.
    """

    def __init__(self, compilation: Compilation) -> None:
        expect_kind("the compilation", compilation, Compilation)
        if not compilation.finished:
            raise NnapiError(ResultCode.BAD_STATE, "the compilation has not been finished")
        if not compilation.valid:
            bad("the compilation is invalid: its finish() failed, or it has been closed")
        self._compilation = compilation
        self._started, self._starting = False, make_lock()
        self._inputs: dict[int, _Argument] = {}
        self._outputs: dict[int, _Argument] = {}
        self._shapes: tuple[Shape, ...] = ()

    def set_input(self, index: int, buffer: Any, type: OperandType | None = None) -> None:
        """Set input `index` of the model to an array, bytes or numbers; None omits an optional input.

        type: gives the dimensions that the model left 0; all else as in the model, as when it is None. Raises
        BAD_DATA when it is not, when dimensions stay open, or the buffer does not have the type.
        """
        position = self._position(index, self._compilation.model.inputs, "set_input")
        bound = self._bound(
            self._compilation.model.inputs[position], type, f"input {position}", buffer is None
        )
        array = None if buffer is None else as_array(buffer, bound, f"input {position}")
        self._inputs[position] = _Argument(bound, array)

    def set_input_from_memory(
        self, index: int, memory: Memory, offset: int, length: int, type: OperandType | None = None
    ) -> None:
        """Set an input to `length` bytes of a memory; as set_input()."""
        position = self._position(index, self._compilation.model.inputs, "set_input_from_memory")
        expect_kind("the memory", memory, Memory)
        bound = self._bound(self._compilation.model.inputs[position], type, f"input {position}")
        array = from_bytes(memory.view(offset, length), bound, f"input {position}")
        self._inputs[position] = _Argument(bound, array)

    def set_output(self, index: int, buffer: Any, type: OperandType | None = None) -> None:
        """Set where output `index` is written: a writable, C-contiguous array or bytes-like object.

        type: as in set_input(). Without it, from feature level 29 on, an output whose dimensions are open is
        written to the beginning of the buffer, which may be larger; get_output_operand_dimensions() says its
        shape. No operation has an optional output, so None is UNEXPECTED_NULL.
        """
        position = self._position(index, self._compilation.model.outputs, "set_output")
        expect_given("the buffer of an output", buffer)
        self._set_output(position, buffer, type)

    def set_output_from_memory(
        self, index: int, memory: Memory, offset: int, length: int, type: OperandType | None = None
    ) -> None:
        """Set an output to `length` bytes of a writable memory; as set_output()."""
        position = self._position(index, self._compilation.model.outputs, "set_output_from_memory")
        expect_kind("the memory", memory, Memory)
        self._set_output(position, memory.view(offset, length, write=True).data, type)

    def get_output_operand_dimensions(self, index: int) -> Shape:
        """Return the dimensions of output `index`, which start_compute() has found (feature level 29).

        They are known even if it raised OUTPUT_INSUFFICIENT_SIZE. Raises BAD_STATE before, and BAD_DATA for
        an index that the model does not have.
        """
        position = self._index(index, self._compilation.model.outputs, "get_output_operand_dimensions")
        if not self._shapes:
            raise NnapiError(ResultCode.BAD_STATE, "no execution has found the dimensions of outputs yet")
        return self._shapes[position]

    def get_output_operand_rank(self, index: int) -> int:
        """Return the number of dimensions of output `index`; as get_output_operand_dimensions()."""
        return len(self.get_output_operand_dimensions(index))

    def start_compute(self) -> Event:
        """Start the execution, which can be done once, and return the event of its end.

        Raises BAD_STATE when it was started before; BAD_DATA when an input or output is not set, buffers
        overlap that must not, or the inputs do not fit the model; OP_FAILED when they make it one that cannot
        be run; OUTPUT_INSUFFICIENT_SIZE when an output is larger than its buffer.
        """
        self._expect_open("start_compute")
        model = self._compilation.model
        for what, arguments, count in (
            ("input", self._inputs, len(model.inputs)),
            ("output", self._outputs, len(model.outputs)),
        ):
            missing = [str(k) for k in range(count) if k not in arguments]
            if missing:
                bad(f"{what} {', '.join(missing)} of model {model.name!r} has not been set")
        inputs = [self._inputs[k] for k in range(len(model.inputs))]
        outputs = [self._outputs[k] for k in range(len(model.outputs))]
        self._expect_apart(inputs, outputs)
        binding = Binding(tuple(a.type for a in inputs), tuple(a.array for a in inputs))

        def check(translation: Translation) -> None:
            self._shapes = tuple(operand.type.shape for operand in translation.graph.outputs)
            _expect_shapes(self._shapes, outputs)
            _check_inputs(translation, binding)

        with holding(self._starting):
            self._expect_open("start_compute")
            outcome = self._compilation.start(binding, check)
            self._started = True
        targets = [_target(a, shape) for a, shape in zip(outputs, self._shapes, strict=True)]
        return Event(lambda: _complete(outcome, targets))

    def _expect_open(self, call: str) -> None:
        if self._started:
            raise NnapiError(ResultCode.BAD_STATE, f"{call}: the execution has been started")

    def _set_output(self, position: int, buffer: Any, type: OperandType | None) -> None:
        """Set an output to a buffer of its shape, or one with room for any where that is open."""
        model, what = self._compilation.model, f"output {position}"
        declared = model.operands[model.outputs[position]].type
        room = type is None and not declared.specified and model.feature_level >= ROOM_SINCE
        bound = declared if room else self._bound(model.outputs[position], type, what)
        array = as_room(buffer, bound, what) if room else as_array(buffer, bound, what, write=True)
        self._outputs[position] = _Argument(bound, array, room)

    def _position(self, index: int, operands: Sequence[int], call: str) -> int:
        self._expect_open(call)
        return self._index(index, operands, call)

    def _index(self, index: int, operands: Sequence[int], call: str) -> int:
        found = expect_index(f"{call}: the index", index)
        if not 0 <= found < len(operands):
            bad(f"{call}: the model has {len(operands)} of these, there is no index {found}")
        return found

    def _bound(self, k: int, type: OperandType | None, what: str, omitted: bool = False) -> OperandType:
        """Return the type of operand k with the dimensions of `type`."""
        model = self._compilation.model
        declared = model.operands[k].type
        return declared if omitted else bound_type(declared, type, model.feature_level, what)

    def _expect_apart(self, inputs: Sequence[_Argument], outputs: Sequence[_Argument]) -> None:
        """Raise BAD_DATA if an output overlaps another output, an input or a referenced constant (types.hal,
        Request).
        """
        constants = [
            operand.value
            for operand in self._compilation.model.operands
            if operand.lifetime is OperandLifeTime.CONSTANT_REFERENCE and operand.value is not None
        ]
        for k, output in enumerate(outputs):
            others = [*(a.array for a in inputs), *(a.array for a in outputs[:k]), *constants]
            for other in others:
                if (
                    other is not None
                    and output.array is not None
                    and np.may_share_memory(output.array, other)
                ):
                    bad(f"the buffer of output {k} overlaps another output, an input or a constant")


def _expect_shapes(shapes: Sequence[Shape], outputs: Sequence[_Argument]) -> None:
    """Raise BAD_DATA unless every output is set to a buffer of its shape.

    Raises OUTPUT_INSUFFICIENT_SIZE for one that only has too little room.
    """
    for k, (argument, shape) in enumerate(zip(outputs, shapes, strict=True)):
        if not argument.room and argument.type.dimensions != shape:
            bad(f"output {k} has shape {list(shape)}, but its buffer is {argument.type}")
    for k, (argument, shape) in enumerate(zip(outputs, shapes, strict=True)):
        size = math.prod(shape)
        if argument.room and argument.array is not None and argument.array.size < size:
            what = (
                f"output {k} has shape {list(shape)}, its buffer has room for {argument.array.size} elements"
            )
            raise NnapiError(ResultCode.OUTPUT_INSUFFICIENT_SIZE, what)


def _target(argument: _Argument, shape: Shape) -> Array:
    """Return where an output of a shape is written."""
    assert argument.array is not None, "an output has a buffer"
    return argument.array[: math.prod(shape)].reshape(shape) if argument.room else argument.array


def _check_inputs(translation: Translation, binding: Binding) -> None:
    """Raise what the checks of the inputs' values find, OP_FAILED last."""
    values = ((check, binding.values[check.position]) for check in translation.checks)
    found = [check.error(value) for check, value in values if value is not None]
    errors = [error for error in found if error is not None]
    if errors:
        raise min(errors, key=lambda error: error.code)


def _complete(outcome: Outcome, targets: Sequence[Array]) -> None:
    """Wait for the run and write the outputs. Raises OP_FAILED or OUT_OF_MEMORY."""
    try:
        with translated():
            results = outcome()
    except NnapiError as error:
        code = error.code if error.code is ResultCode.OUT_OF_MEMORY else ResultCode.OP_FAILED
        raise NnapiError(code, error.message) from error
    arrays = results if isinstance(results, tuple) else (results,)
    for target, result in zip(targets, arrays, strict=True):
        np.copyto(target, result.reshape(target.shape))
