"""Inputs and outputs of an NNAPI operation: a line of text for each form, and the check against it.

A line lists parameters as `name:kind`. A kind begins with
    T  a tensor of the operation's type, which is one of Signature.types
    B  the bias for that type: INT32 where T is QUANT8
    F  TENSOR_FLOAT32    I  TENSOR_INT32    Q  TENSOR_QUANT8_ASYMM    A  a tensor of any of Signature.types
    V  TENSOR_INT32 whose values must be known when the model is made ready (a shape, axes, paddings)
    i  INT32 scalar      f  FLOAT32 scalar
then come the ranks of a tensor (`4`, `1-4`, `2,4`, `2-`), then `?` for an optional parameter or `*` for
any number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpunn.importers.nnapi.codes import OperandCode, OperandType

FLOAT, INT, QUANT8 = (
    OperandCode.TENSOR_FLOAT32,
    OperandCode.TENSOR_INT32,
    OperandCode.TENSOR_QUANT8_ASYMM,
)
_FIXED = {"F": FLOAT, "I": INT, "V": INT, "Q": QUANT8, "i": OperandCode.INT32, "f": OperandCode.FLOAT32}
_TOKEN = re.compile(r"(\w+):([TBFIQAVif])([\d,-]*)([?*]?)")
MAX_RANK = 1 << 10


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a form."""

    name: str
    kind: str
    ranks: tuple[range, ...] = ()
    optional: bool = False
    variadic: bool = False

    @property
    def is_attribute(self) -> bool:
        """Tell whether the value of the parameter, not its tensor, is an attribute of the operation."""
        return self.kind in "Vif"

    def codes(self, types: Sequence[OperandCode]) -> tuple[OperandCode, ...]:
        """Return the operand codes that fit if the operation's type is one of `types`."""
        if self.kind in "TA":
            return tuple(types)
        if self.kind == "B":
            return tuple(INT if t is QUANT8 else t for t in types)
        return (_FIXED[self.kind],)


def parse(line: str) -> tuple[Param, ...]:
    """Return the parameters of a line."""
    found = [_TOKEN.fullmatch(token) for token in line.split()]
    return tuple(
        Param(m[1], m[2], tuple(map(_range, filter(None, m[3].split(",")))), m[4] == "?", m[4] == "*")
        for m in found
        if m is not None
    )


def _range(text: str) -> range:
    low, dash, high = text.partition("-")
    return range(int(low), int(high or (MAX_RANK if dash else low)) + 1)


@dataclass(frozen=True, slots=True)
class Signature:
    """The input forms and the outputs of an operation, and the types its tensors may have."""

    forms: tuple[tuple[Param, ...], ...]
    outputs: tuple[Param, ...]
    types: tuple[OperandCode, ...]

    def match(self, inputs: Sequence[OperandType]) -> tuple[Param, ...] | str:
        """Return the form that fits, one parameter for each input; else what is wrong with the nearest."""
        complaints = []
        for form in self.forms:
            params = _spread(form, len(inputs))
            if params is None:
                continue
            complaint = self._complaint(params, inputs, "input")
            if not complaint:
                return params
            complaints.append(complaint)
        counts = " or ".join(f"{len(f) - 1} or more" if f[0].variadic else str(len(f)) for f in self.forms)
        return complaints[0] if complaints else f"takes {counts} inputs, got {len(inputs)}"

    def mismatch(
        self, form: Sequence[Param], inputs: Sequence[OperandType], outputs: Sequence[OperandType]
    ) -> str:
        """Say what is wrong with the outputs; empty if nothing is."""
        if len(outputs) != len(self.outputs):
            return f"has {len(self.outputs)} outputs, got {len(outputs)}"
        common = {t.type for p, t in zip(form, inputs, strict=True) if p.kind == "T"}
        return self._complaint(self.outputs, outputs, "output", tuple(common) or self.types)

    def _complaint(
        self,
        params: Sequence[Param],
        found: Sequence[OperandType],
        what: str,
        types: Sequence[OperandCode] = (),
    ) -> str:
        """Describe the first parameter that its operand's type does not fit."""
        common: Sequence[OperandCode] = types or self.types
        for index, (param, operand) in enumerate(zip(params, found, strict=True)):
            codes = param.codes(common)
            if operand.type not in codes:
                return f"{what} {index} ({param.name}) must be {_either(codes)}, got {operand}"
            if param.kind == "T":
                common = (operand.type,)
            rank = len(operand.dimensions)
            if param.ranks and not param.optional and not any(rank in r for r in param.ranks):
                return f"{what} {index} ({param.name}) must have rank {_ranks(param)}, got {operand}"
        return ""


def _spread(form: tuple[Param, ...], count: int) -> tuple[Param, ...] | None:
    """Repeat the variadic parameter, the first, until the form has `count` parameters; None if it cannot."""
    if form and form[0].variadic:
        repeated = count - len(form) + 1
        return (form[0],) * repeated + form[1:] if repeated > 0 else None
    return form if len(form) == count else None


def _either(codes: Iterable[OperandCode]) -> str:
    return " or ".join(code.name for code in codes)


def _ranks(param: Param) -> str:
    return " or ".join(str(r[0]) if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in param.ranks)
