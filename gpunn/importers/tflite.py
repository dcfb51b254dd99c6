"""The TFLite reader: a .tflite file becomes a Model; weights are views of the file's bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpunn.custom import CustomOperator
from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.importers.tflite_custom import CUSTOM_OPERATORS, PREFIX, custom_rule
from gpunn.importers.tflite_file import FileOperator, FileTensor, TfliteFile
from gpunn.importers.tflite_labels import labels
from gpunn.importers.tflite_node import MAX_INTS, Known, Node, RefusedError, Step
from gpunn.importers.tflite_rules import OPERATORS, Rule
from gpunn.model import Lifetime, Model, Operand, lookup
from gpunn.ops import OPS
from gpunn.ops.binary_integer import COMPARISONS
from gpunn.ops.check import QUANTIZED
from gpunn.types import DType, Quantization, TensorType

IDENTIFIER = b"TFL3"  # TensorFlow Lite schema, file_identifier
MIN_BYTES = 12  # root offset, identifier, and at least the root table's own offset

INTEGERS = (DType.INT32, DType.INT64, DType.BOOL)  # of these the op itself says whether it takes them
BIASED = (
    "conv2d",
    "depthwise_conv2d",
    "fully_connected",
    "transpose_conv2d",
)  # a quantised bias, input BIAS, is INT32
BIAS = 2
HYBRID = (*BIASED, "batch_matmul")  # products that take reals with a quantised constant, input FILTER
FILTER = 1
MAX_KNOWN_BYTES = 64 << 20  # of constants that rules unfold: a small file can ask for many of them


def recognise(data: bytes) -> bool:
    """Whether the bytes say that they are a .tflite file."""
    return len(data) >= MIN_BYTES and data[4:8] == IDENTIFIER


def read(data: bytes, name: str, custom: Mapping[str, CustomOperator] | None = None) -> Model:
    """The Model of a .tflite file's bytes; `name` is the file's, for messages.

    `custom` says what custom operators stand for, by the names that the file has for them.
    Raises FormatError, ModelError, and UnsupportedError with everything that is unsupported at once.
    """
    file = TfliteFile(data, name)
    model = _Reader(file, {**CUSTOM_OPERATORS, **(custom or {})}).read()
    model.labels = labels(data, [o.type for o in model.outputs])
    return model


class _Reader:
    """Builds the Model of one file, operator by operator."""

    def __init__(self, file: TfliteFile, custom: Mapping[str, CustomOperator]) -> None:
        self.file = file
        self.custom = custom
        self.model = Model(file.name)
        self.names: dict[str, int] = {}
        self.operands: dict[int, Operand] = {}
        self.widened: dict[Operand, Operand] = {}
        self.unsupported: list[str] = []
        self.known = 0

    def read(self) -> Model:
        if self.file.subgraphs > 1:
            self.unsupported.append(f"{self.file.name}: {self.file.subgraphs} subgraphs, one is supported")
        for index in self.file.inputs:
            self._input(index)
        for operator in self.file.operators:
            try:
                self._add(operator)
            except RefusedError as refusal:
                self.unsupported.append(f"{self.file.name}: {operator} v{operator.version}: {refusal}")
                self._stand_in(operator)
            except (FormatError, ModelError):
                if not self.unsupported:
                    raise
                self._stand_in(operator)  # what it works on may have come from a stand-in
        if self.unsupported:
            raise UnsupportedError("; ".join(self.unsupported))
        if not self.file.outputs:
            self.file.fail("has no outputs")
        self.model.output(*(self._operand(i, "an output of the model") for i in self.file.outputs))
        return self.model

    def _name(self, tensor: FileTensor) -> str:
        """The tensor's name, made unique."""
        number = self.names.get(tensor.name, 0)
        self.names[tensor.name] = number + 1
        if number == 0:
            return tensor.name
        return self._name_free(f"{tensor.name}:{number}")

    def _name_free(self, name: str) -> str:
        while name in self.names:
            name += "'"
        self.names[name] = 1
        return name

    def _input(self, index: int) -> None:
        tensor = self.file.tensors[index]
        if index in self.operands:
            self.file.fail(f"tensor {index} ({tensor.name}) is an input of the model twice")
        if tensor.type is None:
            self.unsupported.append(f"{self.file.name}: input {tensor.name} is {tensor.type_name}")
        else:
            self.operands[index] = self.model.input(self._name(tensor), tensor.type)

    def _operand(self, index: int, reader: str) -> Operand:
        """The operand of a tensor that something reads."""
        if index not in self.operands:
            tensor = self.file.tensors[index]
            value = self.file.value(index)
            if value is None:
                self.file.fail(f"tensor {index} ({tensor.name}), {reader}, comes from nowhere")
            self.operands[index] = self.model.constant(self._name(tensor), value, tensor.type)
        return self.operands[index]

    def _read(self, index: int, position: int, operator: FileOperator) -> Operand:
        """The operand at an operator's input, refused when its kind is not supported."""
        tensor = self.file.tensors[index]
        for bad, what in (
            (tensor.dtype is None, f"is {tensor.type_name}"),
            (tensor.is_sparse, "is sparse"),
            (tensor.is_variable and index not in self.operands, "is a variable"),
        ):
            if bad:
                raise RefusedError(f"input {position} ({tensor.name}) {what}, which is not supported")
        return self._operand(index, f"input {position} of {operator}")

    def _add(self, operator: FileOperator) -> None:
        """Add what stands for one operator."""
        origin = f"{self.file.name}: {operator}"
        rule = self._rule(operator.code)
        inputs = tuple(
            None if i is None else self._read(i, at, operator) for at, i in enumerate(operator.inputs)
        )
        outputs = tuple(self.file.tensors[i].type for i in operator.outputs)
        options = operator.options_type, operator.options_table
        answer = rule(Node(origin, inputs, *options, outputs, operator.custom_options))
        if isinstance(answer, Known):
            self._expect_bounded(answer, origin)
            name = self._name(self.file.tensors[operator.outputs[0]]) if operator.outputs else ""
            self._store(origin, operator, (self.model.constant(name, answer.value),))
            return
        steps = [answer] if isinstance(answer, Step) else list(answer)
        steps = [self._widened(step, origin) for step in steps]
        for step in steps:
            _expect_reals(step)
        self._run(origin, steps, operator)

    def _expect_bounded(self, answer: Known, origin: str) -> None:
        """Refuse the whole file when its constants unfold to too much: the next one would cost as much."""
        self.known += answer.value.nbytes
        if self.known > MAX_KNOWN_BYTES:
            reason = f"{origin}: constants unfold to {self.known} bytes, at most {MAX_KNOWN_BYTES} are kept"
            raise UnsupportedError("; ".join([*self.unsupported, reason]))

    def _rule(self, code: str) -> Rule:
        """The rule of an operator, refused when there is none."""
        if code in OPERATORS:
            return OPERATORS[code]
        if not code.startswith(PREFIX):
            raise RefusedError("this operator is not supported")
        name = code.removeprefix(PREFIX)
        if name not in self.custom:
            raise RefusedError("this operator has no meaning, gpunn.load(custom=...) can give it one")
        return custom_rule(self.custom[name])

    def _widened(self, step: Step, origin: str) -> Step:
        """The step with its quantised constant filter dequantised where the input it meets is of reals.

        TFLite's hybrid kernels quantise the input on the fly instead: less exact (docs/quantized.md).
        """
        x, filter = (*step.inputs, None, None)[: FILTER + 1]
        if step.op not in HYBRID or x is None or filter is None or filter.value is None:
            return step
        quantised = filter.type.dtype in QUANTIZED and filter.type.quantization is not None
        if x.type.dtype is not DType.FLOAT32 or not quantised:
            return step
        if filter not in self.widened:  # once, however many operators share it
            name = self._name_free(f"{filter.name}:float32")
            (self.widened[filter],) = self.model.add("dequantize", (filter,), origin=origin, names=[name])
        return replace(step, inputs=(x, self.widened[filter], *step.inputs[FILTER + 1 :]))

    def _run(self, origin: str, steps: Sequence[Step], operator: FileOperator) -> None:
        """Add an operator's ops one after the other; the last one yields its outputs."""
        previous: tuple[Operand, ...] = ()
        for step in steps:
            last = step is steps[-1]
            names = [self._name(self.file.tensors[i]) for i in operator.outputs] if last else []
            inputs = (*previous, *step.inputs[1:]) if previous else step.inputs
            declared = self._declared(step, operator) if last else []
            previous = self._apply(step, inputs, origin, names, declared)
        self._store(origin, operator, previous)

    def _declared(self, step: Step, operator: FileOperator) -> Sequence[Quantization | None]:
        """The quantisations that an operator's outputs shall have; nothing: what follows from the inputs."""
        declared = [self.file.tensors[i].quantization for i in operator.outputs]
        if step.op == "hashtable_lookup" and declared[1:] == [None]:  # hits, 0 or 1, whatever they stand for
            values = step.inputs[-1]
            return [None if values is None else values.type.quantization, None]
        return [] if lookup(step.op).raw or not any(declared) else declared

    def _apply(
        self,
        step: Step,
        inputs: tuple[Operand | None, ...],
        origin: str,
        names: Sequence[str],
        declared: Sequence[Quantization | None],
    ) -> tuple[Operand, ...]:
        """The results of an op; arithmetic on shapes is done now, as types and rules need what it gives."""
        if all(o is not None and o.value is not None and _is_short(o.type) for o in inputs):
            scratch = Model()
            results = scratch.add(step.op, inputs, step.attrs, origin=origin, names=names)
            if all(_is_short(o.type) for o in results):
                values = scratch.operations[0].evaluate([None if o is None else o.value for o in inputs])
                pairs = zip(results, values, strict=True)
                return tuple(self.model.constant(o.name, np.asarray(v, order="C")) for o, v in pairs)
        return self.model.add(step.op, inputs, step.attrs, origin=origin, names=names, quantization=declared)

    def _store(self, origin: str, operator: FileOperator, results: Sequence[Operand]) -> None:
        """Let operands be the outputs of an operator."""
        if len(results) != len(operator.outputs):
            raise FormatError(f"{origin}: expected {len(results)} outputs, got {len(operator.outputs)}")
        for index, operand in zip(operator.outputs, results, strict=True):
            self._compare(origin, self.file.tensors[index], operand)
            self.operands[index] = operand  # a file may write a tensor again: readers see the latest

    def _compare(self, origin: str, tensor: FileTensor, operand: Operand) -> None:
        """FormatError unless the file's type of an output is the one that follows from the inputs."""
        if tensor.dtype is not operand.type.dtype:
            raise FormatError(
                f"{origin}: output {tensor.name} is {tensor.type_name}, expected {operand.type.dtype.name}"
            )
        if tensor.quantization != operand.type.quantization:
            raise RefusedError(
                f"output {tensor.name} has {_words(tensor.quantization)}, "
                f"expected {_words(operand.type.quantization)} from the inputs"
            )
        if tensor.shape is None:
            return
        expected = operand.type.shape
        fits = len(tensor.shape) == len(expected) and all(
            d is None or d == e for d, e in zip(tensor.shape, expected, strict=True)
        )
        if not fits:
            raise FormatError(
                f"{origin}: output {tensor.name} has shape {list(tensor.stored)} in the file, "
                f"expected {list(expected)} from the inputs"
            )

    def _stand_in(self, operator: FileOperator) -> None:
        """Operands for the results of an operator that is not there, so that the search can go on."""
        for index in operator.outputs:
            tensor = self.file.tensors[index]
            if tensor.type is not None:
                operand = Operand(self._name(tensor), tensor.type, Lifetime.TEMPORARY)
                self.operands.setdefault(index, operand)


def _is_short(type: TensorType) -> bool:
    """Whether a tensor may be a shape, or indices into one."""
    return type.dtype in (DType.INT32, DType.INT64) and type.quantization is None and type.size <= MAX_INTS


def _expect_reals(step: Step) -> None:
    """Refuse reals that are not float32, or quantised 8-bit integers throughout, unless they just move.

    A custom op says itself what it takes.
    """
    if not isinstance(step.op, str):
        return
    types = [None if o is None else o.type for o in step.inputs]
    integer = any(t is not None and t.quantization is not None for t in types)
    for position, (operand, type) in enumerate(zip(step.inputs, types, strict=True)):
        if operand is None or type is None:
            continue
        if not _real(step.op, position, type, integer):
            kind = type.dtype.name if type.quantization is None else f"quantised {type.dtype.name}"
            among = " among quantised inputs" if integer and type.dtype is DType.FLOAT32 else ""
            raise RefusedError(
                f"input {position} ({operand.name}) is {kind}{among}, "
                "only FLOAT32 or quantised UINT8 and INT8 are supported"
            )


def _real(op: str, position: int, type: TensorType, integer: bool) -> bool:
    """Whether an op takes a type at one of its inputs; `integer`: some input is quantised."""
    if OPS[op].raw:
        return True
    quantised = type.quantization is not None
    if type.dtype in QUANTIZED:
        return quantised or op in COMPARISONS
    if op in BIASED and integer:
        return type.dtype is DType.INT32 and position == BIAS
    if op in BIASED:
        return type.dtype is DType.FLOAT32
    if type.dtype in INTEGERS:
        return not quantised
    if type.dtype is DType.INT16:
        return quantised and op in ("dequantize", "quantize")
    if type.dtype is DType.FLOAT16:
        return op == "dequantize"
    return type.dtype is DType.FLOAT32 and not integer


def _words(quantization: Quantization | None) -> str:
    """A quantisation for a message."""
    if quantization is None:
        return "no quantisation"
    if not quantization.per_tensor:
        return f"{len(quantization.scale)} scales"
    return f"scale {quantization.scale[0]:g} and zero point {quantization.zero_point[0]}"
