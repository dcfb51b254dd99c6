"""WGSL of appended operations: what stores compute of a value before they store it (gpunn.pointwise)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gpunn.backends.webgpu.bindings import Binding, element_type, held, stores_by, vector_type
from gpunn.pointwise import Appended, Formula, Reach
from gpunn.types import DType

_WORD = re.compile(r"(?<![\w.])(p\.|load_)?([^\W\d]\w*)")


def chain(binding: Binding, lanes: int, names: frozenset[str]) -> Iterator[str]:
    """Write final_<name> and final4_<name>, which the stores of an operand call, and what these call.

    Or appended4_<name>, where the body computes the operations, not its stores.

    `names`: those that the code mentions.
    """
    needed = stores_by(binding, lanes, names)
    for appended in binding.appended:
        yield from functions(appended, 4 in needed)
    for count in needed:
        yield _final(binding, count)


def functions(appended: Appended, fours: bool) -> Iterator[str]:
    """Write the formulas of an operation as functions of single elements, and of four."""
    for formula in appended.formulas:
        yield _function(appended, formula)
        if fours:
            yield _of_four(appended, formula)


def _function(appended: Appended, formula: Formula) -> str:
    """Write a formula as a function."""
    *given, result = map(element_type, formula.dtypes)
    params = ", ".join(f"{name}: {kind}" for name, kind in zip(formula.params, given, strict=True))
    text = _named(formula.expression, appended, {"T": result, **{name: name for name in formula.params}})
    return f"fn {appended.prefix}{formula.name}({params}) -> {result} {{ return {text}; }}"


def _of_four(appended: Appended, formula: Formula) -> str:
    """Write the form of a function that takes four elements of each parameter."""
    *given, result = (vector_type(element_type(dtype)) for dtype in formula.dtypes)
    params = ", ".join(f"{name}: {kind}" for name, kind in zip(formula.params, given, strict=True))
    name = f"{appended.prefix}{formula.name}"
    calls = ", ".join(f"{name}({', '.join(f'{q}[{k}]' for q in formula.params)})" for k in range(4))
    return f"fn {name}4({params}) -> {result} {{ return {result}({calls}); }}"


def _final(binding: Binding, count: int) -> str:
    """Write the function from what the body stores at place i, one element or four, to what is stored."""
    assert binding.dtype is not None
    assert binding.computed is not None
    suffix = "4" if count == 4 else ""
    switched = binding.optional and not binding.in_loop
    # Places are below 2^31. If only parameters were compared, lavapipe of Mesa 22.3 would compile some
    # shaders again for every dispatch (shaders/README.md).
    lines = ["if (p.then_on == (i >> 31u)) { return value; }"] if switched else []
    lines += [f"let v0 = {held(binding.computed, 'value', count)};"]
    *others, last = values_of(binding.appended, count)
    lines += (f"let v{k} = {held(s.dtype, v, count)};" for k, (s, v) in enumerate(others, start=1))
    lines.append(f"let v{len(binding.appended)} = {last[1]};")
    kinds = [element_type(dtype) for dtype in (binding.computed, binding.dtype)]
    given, result = kinds if count == 1 else map(vector_type, kinds)
    text = " ".join((*lines, f"return v{len(binding.appended)};"))
    verb = "appended" if binding.in_loop else "final"
    return f"fn {verb}{suffix}_{binding.name}(i: u32, value: {given}) -> {result} {{ {text} }}"


def values_of(steps: Sequence[Appended], count: int) -> Iterator[tuple[Appended, str]]:
    """Yield operations with the expressions for their values at place i, one element or four."""
    for step in steps:
        operands = {
            name: _element(f"{step.prefix}{name}", dtype, reach, count) for name, dtype, reach in step.reads
        }
        yield step, value_of(step, operands, "4" if count == 4 else "")


def value_of(appended: Appended, reads: Mapping[str, str], suffix: str) -> str:
    """Write the value of an operation; reads: expressions for its reads. suffix: of functions, 4 of four."""
    operands = {name: f"v{k}" for name, k in appended.values}
    called = {f.name: f"{appended.prefix}{f.name}{suffix}" for f in appended.formulas}
    return _named(appended.expression, appended, {**called, **operands, **reads})


def _named(expression: str, appended: Appended, names: Mapping[str, str]) -> str:
    """Return an expression with its own names in place of those of the operation's kernel."""
    functions = {f.name: f"{appended.prefix}{f.name}" for f in appended.formulas}

    def name(found: re.Match[str]) -> str:
        kind, word = found.groups()
        if kind is not None:
            return f"{kind}{appended.prefix}{word}"
        return names.get(word) or functions.get(word) or word

    return _WORD.sub(name, expression)


def _element(name: str, dtype: DType, reach: Reach, count: int) -> str:
    """Write the element of an operand that belongs to element i, or the elements for the four from 4 i on."""
    kind, period, inner = element_type(dtype), f"p.{name}_period", f"p.{name}_inner"
    if reach is Reach.DENSE:
        return f"load_{name}(i)" if count == 1 else f"load4_{name}(i)"
    if reach is Reach.FOURS and count == 4:
        return f"load4_{name}(i % ({period} / 4u))"
    if reach is Reach.PARTS_FOURS and count == 4:
        return f"load4_{name}(i / (p.{name}_every / 4u) * ({period} / 4u) + i % ({period} / 4u))"
    if reach is Reach.PADDED_FOURS and count == 4:
        return _padded(name, dtype, "i", 4)

    def one(i: str) -> str:
        if reach.padded:
            return _padded(name, dtype, i, 1)
        if reach is Reach.FIRST:
            return f"load_{name}(0u)"
        if reach.in_parts:
            return f"load_{name}({i} / p.{name}_every * {period} + {i} % {period})"
        quotient = f"{i} / {inner}" if reach in (Reach.SPREAD, Reach.SHARED) else i
        return f"load_{name}({quotient} % {period})"

    if count == 1:
        return one("i")
    shared = reach in (Reach.FIRST, Reach.SHARED)
    elements = [one("(4u * i)")] if shared else [one(f"(4u * i + {k}u)") for k in range(4)]
    return f"{vector_type(kind)}({', '.join(elements)})"


def _padded(name: str, dtype: DType, i: str, count: int) -> str:
    """Write the element, or the four, of an operand with shorter rows; outside of these it is a fill."""
    kind, suffix = element_type(dtype), "4" if count == 4 else ""
    params = (f"p.{name}_{what}" for what in ("row", "before", "period"))
    row, before, period = (f"({param} / 4u)" if count == 4 else param for param in params)
    column = f"({i} % {row} - {before})"  # in front of the shorter row a number above all of its columns
    element = f"load{suffix}_{name}({i} / {row} * {period} + min({column}, {period} - 1u))"
    fill = f"{kind}(p.{name}_fill)"
    filled = fill if count == 1 else f"{vector_type(kind)}({fill})"
    return f"select({filled}, {element}, {column} < {period})"
