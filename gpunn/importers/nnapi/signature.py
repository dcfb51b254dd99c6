"""Inputs and outputs of an NNAPI operation: a line of text for each form, and the check against it.

A line lists parameters as `name:kind`. A kind begins with
    T  a tensor of the operation's type, which is one of Signature.types
    W  a filter for that type: T, or QUANT8_SYMM_PER_CHANNEL (from level 29 on) where T is quantised
    B  the bias for that type: INT32 where T is quantised
    R  TENSOR_FLOAT32, or TENSOR_FLOAT16 (from level 29 on)
    I  TENSOR_INT32    Q  TENSOR_QUANT8_ASYMM    A  a tensor of any of Signature.types
    V  TENSOR_INT32 whose values must be known when the model is made ready (a shape, axes, paddings)
    i  INT32 scalar    b  BOOL scalar    f  FLOAT32 scalar, FLOAT16 where T is FLOAT16
then come the ranks of a tensor (`4`, `1-4`, `2,4`, `2-`), then `?` for an optional parameter or `*` for
any number.

What later feature levels add is a part of the line. `T4/29:1-4` has rank 4, and from level 29 on ranks 1 to
4. `[29 axis:i]` at the end of a line are parameters that a model of level 29 or more may add or leave out; of
several such groups, those at the end may be left out. A line that begins with a level (`29 x:T4 ...`) is a
form from that level on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpunn.importers.nnapi.codes import OperandCode, OperandType

FLOAT, HALF, INT = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16, OperandCode.TENSOR_INT32
QUANT8, SIGNED = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
SYMMETRIC, PER_CHANNEL = OperandCode.TENSOR_QUANT8_SYMM, OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
_FIXED = {
    "R": (FLOAT,),
    "I": (INT,),
    "V": (INT,),
    "Q": (QUANT8,),
    "i": (OperandCode.INT32,),
    "b": (OperandCode.BOOL,),
    "f": (OperandCode.FLOAT32,),
}
ATTRIBUTES = "Vibf"
_TOKEN = re.compile(r"(\w+):([TWBRIQAVibf])([\d,-]*)((?:/\d+:[\d,-]+)*)([?*]?)")
_GROUP = re.compile(r"\[(\d+) ([^]]+)\]")
_FROM = re.compile(r"(\d+) ")
MAX_RANK = 1 << 10

Types = tuple[tuple[int, OperandCode], ...]  # the types of an operation, each with its first feature level


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a form, at feature level `level`."""

    name: str
    kind: str
    ranks: tuple[range, ...] = ()
    optional: bool = False
    variadic: bool = False
    level: int = 27

    @property
    def is_attribute(self) -> bool:
        """Tell whether the value of the parameter, not its tensor, is an attribute of the operation."""
        return self.kind in ATTRIBUTES

    def codes(self, types: Sequence[OperandCode]) -> tuple[OperandCode, ...]:
        """Return the operand codes that fit if the operation's type is one of `types`."""
        if self.kind in "TA":
            return tuple(types)
        if self.kind == "B":
            return tuple(dict.fromkeys(INT if t.form.quantised else t for t in types))
        if self.kind == "W" and self.level >= PER_CHANNEL.form.since:
            return (*types, PER_CHANNEL) if any(t.form.quantised for t in types) else tuple(types)
        if self.kind == "f" and tuple(types) == (HALF,):
            return (OperandCode.FLOAT16,)
        if self.kind == "R" and self.level >= HALF.form.since:
            return (FLOAT, HALF)
        return tuple(types) if self.kind == "W" else _FIXED[self.kind]


def parse(line: str, level: int) -> tuple[Param, ...]:
    """Return the parameters of a line without groups, at a feature level."""
    found = [_TOKEN.fullmatch(token) for token in line.split()]
    return tuple(_param(m, level) for m in found if m is not None)


def _param(m: re.Match[str], level: int) -> Param:
    ranks = m[3]
    for later in m[4].split("/")[1:]:
        since, _, text = later.partition(":")
        ranks = text if level >= int(since) else ranks
    return Param(
        m[1], m[2], tuple(map(_range, filter(None, ranks.split(",")))), m[5] == "?", m[5] == "*", level
    )


def _range(text: str) -> range:
    low, dash, high = text.partition("-")
    return range(int(low), int(high or (MAX_RANK if dash else low)) + 1)


def expanded(line: str, level: int) -> list[str]:
    """Return the forms of a line at a feature level, each without groups, the shortest first."""
    start = _FROM.match(line)
    if start is not None and level < int(start[1]):
        return []
    groups = [m[2] for m in _GROUP.finditer(line) if level >= int(m[1])]
    base = _GROUP.sub("", line[start.end() if start else 0 :]).strip()
    return [" ".join([base, *groups[:count]]) for count in range(len(groups) + 1)]


@dataclass(frozen=True, slots=True)
class Signature:
    """The input forms and the outputs of an operation, and the types its tensors may have."""

    forms: tuple[tuple[Param, ...], ...]
    outputs: tuple[Param, ...]
    types: tuple[OperandCode, ...]

    def match(self, inputs: Sequence[OperandType]) -> tuple[Param, ...] | str:
        """Return the form that fits, one parameter for each input; else what is wrong with the nearest."""
        complaints: list[tuple[int, str]] = []
        for form in self.forms:
            params = _spread(form, len(inputs))
            if params is None:
                continue
            complaint = self._complaint(params, inputs, "input")
            if complaint is None:
                return params
            complaints.append(complaint)
        if complaints:
            return max(complaints, key=lambda complaint: complaint[0])[1]
        counts = " or ".join(f"{len(f) - 1} or more" if f[0].variadic else str(len(f)) for f in self.forms)
        return f"takes {counts} inputs, got {len(inputs)}"

    def mismatch(
        self, form: Sequence[Param], inputs: Sequence[OperandType], outputs: Sequence[OperandType]
    ) -> str:
        """Say what is wrong with the outputs; empty if nothing is."""
        if len(outputs) != len(self.outputs):
            return f"has {len(self.outputs)} outputs, got {len(outputs)}"
        common = {t.type for p, t in zip(form, inputs, strict=True) if p.kind == "T"}
        complaint = self._complaint(self.outputs, outputs, "output", tuple(common) or self.types)
        return "" if complaint is None else complaint[1]

    def _complaint(
        self,
        params: Sequence[Param],
        found: Sequence[OperandType],
        what: str,
        types: Sequence[OperandCode] = (),
    ) -> tuple[int, str] | None:
        """Describe the first parameter that its operand's type does not fit, with its number."""
        common: Sequence[OperandCode] = types or self.types
        for index, (param, operand) in enumerate(zip(params, found, strict=True)):
            codes = param.codes(common)
            if operand.type not in codes:
                return index, f"{what} {index} ({param.name}) must be {_either(codes)}, got {operand}"
            if param.kind == "T":
                common = (operand.type,)
            rank = len(operand.dimensions)
            checked = param.ranks and not param.optional and operand.ranked
            if checked and not any(rank in r for r in param.ranks):
                return index, f"{what} {index} ({param.name}) must have rank {_ranks(param)}, got {operand}"
        return None


def signature(types: Types, forms: Sequence[str], outputs: str, level: int) -> Signature:
    """Return the signature of an operation at a feature level."""
    lines = [line for form in forms for line in expanded(form, level)]
    return Signature(
        tuple(parse(line, level) for line in lines),
        parse(outputs, level),
        tuple(code for since, code in types if since <= level),
    )


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
