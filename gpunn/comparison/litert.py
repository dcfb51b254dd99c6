"""LiteRT (package ai-edge-litert, extra `compare`): a .tflite file run by an independent implementation.

"litert" stands for its default kernels without delegates, on one thread; "litert-ref" for its reference
kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpunn.comparison.inputs import Sample
from gpunn.comparison.sides import Arithmetic, SideInfo
from gpunn.comparison.source import Run, Values
from gpunn.errors import ModelError, UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.importers import Source, bytes_of, tflite
from gpunn.types import Array

RESOLVERS = {"litert": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "litert-ref": "BUILTIN_REF"}
PLACE = "litert"


class _Interpreter:
    """One LiteRT interpreter of a file."""

    def __init__(self, name: str, data: bytes, model: Graph, keep: bool) -> None:
        try:
            from ai_edge_litert import interpreter
        except ImportError as error:
            raise UnsupportedError(
                f"{name} needs the package ai-edge-litert: pip install 'gpunn[compare]' ({error})"
            ) from None
        try:
            self._interpreter: Any = interpreter.Interpreter(
                model_content=data,
                experimental_op_resolver_type=interpreter.OpResolverType[RESOLVERS[name]],
                experimental_preserve_all_tensors=keep,
                num_threads=1,
            )
            self._inputs = self._interpreter.get_input_details()
            for details, operand in zip(self._inputs, model.inputs, strict=True):
                if tuple(details["shape"]) != operand.type.shape:
                    self._interpreter.resize_tensor_input(details["index"], operand.type.shape)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise UnsupportedError(f"LiteRT does not run {model.name}: {error}") from None

    def run(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Compute the outputs, from the initial state."""
        try:
            self._interpreter.reset_all_variables()
            for details, value in zip(self._inputs, arrays, strict=True):
                self._interpreter.set_tensor(details["index"], value)
            self._interpreter.invoke()
            found = self._interpreter.get_output_details()
            return tuple(np.array(self._interpreter.get_tensor(d["index"])) for d in found)
        except (ValueError, RuntimeError) as error:
            raise UnsupportedError(f"LiteRT does not run this: {error}") from None

    def tensors(self) -> dict[str, int]:
        """Return the numbers of all tensors whose names are unique."""
        found: dict[str, int] = {}
        twice: set[str] = set()
        for details in self._interpreter.get_tensor_details():
            name = details["name"]
            if name in found:
                twice.add(name)
            found[name] = details["index"]
        return {name: index for name, index in found.items() if name not in twice}

    def tensor(self, index: int) -> Array | None:
        """Return a tensor's value; None if it has none."""
        try:
            return np.array(self._interpreter.get_tensor(index))
        except ValueError:
            return None


def expect_tflite(name: str, data: bytes, model: str) -> None:
    """Raise UnsupportedError unless the bytes of a file are a .tflite file's."""
    if not tflite.recognise(data):
        raise UnsupportedError(f"{name} runs .tflite files, {model} is none")


class LitertSide:
    """A .tflite file in LiteRT."""

    def __init__(self, name: str, model: Graph, file: Source | None) -> None:
        if file is None:
            raise ModelError(f"{name} runs files: compare a path or a file's bytes instead of a Model")
        data = file if isinstance(file, bytes) else bytes_of(file)
        expect_tflite(name, data, model.name)
        self._name, self._data, self._model = name, data, model
        self._interpreter = _Interpreter(name, data, model, keep=False)
        self.info = SideInfo(name, model.name, f"ai-edge-litert, {RESOLVERS[name]}", Arithmetic.LITERT)

    def run(self, sample: Sample) -> tuple[Array, ...]:
        if self._model.variables:  # reset_all_variables() leaves those that have names as they are
            self._interpreter = _Interpreter(self._name, self._data, self._model, keep=False)
        return self._interpreter.run(sample.arrays)

    def layers(self, samples: Sequence[Sample]) -> LitertLayers:
        """Run the samples and keep all tensors, layer by layer."""
        kept = []
        for sample in samples:
            interpreter = _Interpreter(self._name, self._data, self._model, keep=True)
            interpreter.run(sample.arrays)
            kept.append(interpreter)
        return LitertLayers(self.info, kept)

    def close(self) -> None:
        del self._interpreter


class LitertLayers:
    """The tensors that LiteRT kept of a run, by their names in the file.

    They cannot be set, so the inputs of an isolated layer are those that LiteRT computed. A layer is left out
    if one of its inputs or its result is not a tensor of the file, or has another shape, for example after a
    fusion.
    """

    def __init__(self, info: SideInfo, interpreters: Sequence[_Interpreter]) -> None:
        self.info = info
        self._interpreters = interpreters
        self._numbers = interpreters[0].tensors() if interpreters else {}
        self._operation: Operation | None = None

    def variant(self, operation: Operation) -> Operation:
        return operation

    def begin(self, operation: Operation) -> Run:
        self._operation = operation
        return Run(PLACE, "")

    def isolated(self, sample: int, given: Values) -> tuple[Values, tuple[Array, ...]] | None:
        results = self.accumulated(sample)
        inputs = {o: self._tensor(sample, o) for o in given}
        found = {o: value for o, value in inputs.items() if value is not None}
        return None if results is None or len(found) < len(inputs) else (found, results)

    def accumulated(self, sample: int) -> tuple[Array, ...] | None:
        assert self._operation is not None
        values = [self._tensor(sample, o) for o in self._operation.outputs]
        found = tuple(v for v in values if v is not None)
        return found if len(found) == len(values) else None

    def _tensor(self, sample: int, operand: Operand) -> Array | None:
        number = self._numbers.get(operand.name)
        value = None if number is None else self._interpreters[sample].tensor(number)
        fits = (
            value is not None
            and value.shape == operand.type.shape
            and value.dtype == operand.type.dtype.numpy
        )
        return value if fits else None

    def end(self, dead: Iterable[Operand]) -> None:
        pass
