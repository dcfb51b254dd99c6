"""WGSL of loads that may compute prepended operations of what they load: by rows, or by elements."""

from __future__ import annotations

from collections.abc import Iterator

from gpunn.backends.webgpu.appended import functions, value_of, values_of
from gpunn.backends.webgpu.bindings import Binding, element_type, held, vector_type
from gpunn.pointwise import Reach


def rows(binding: Binding, result: str, names: frozenset[str]) -> Iterator[str]:
    """Write Column4_<name>, column4_<name> and row4_<name> of an operand, and what these call.

    Or what loads by elements call.

    result: what T is. `names`: those that the code mentions.
    """
    name = binding.name
    if binding.by_elements and binding.prepended:
        yield from _elements(binding)
        return
    if binding.stored or names.isdisjoint((f"row4_{name}", f"column4_{name}")):
        return
    vector = vector_type(result if binding.dtype is None else element_type(binding.dtype))
    row, column = f"fn row4_{name}(place: u32, column: Column4_{name}) -> {vector}", f"Column4_{name}"
    if not binding.prepended:
        yield f"alias {column} = u32;"
        yield f"fn column4_{name}(k: u32) -> {column} {{ return k; }}"
        yield f"{row} {{ return load4_{name}(place + column); }}"
        return
    for step in binding.prepended:
        yield from functions(step, fours=True)
    reads = [(f"{step.prefix}{read}", reach) for step in binding.prepended for read, _, reach in step.reads]
    kept = [(read, reach) for read, reach in reads if not reach.in_parts]
    fields = ", ".join(("k: u32", *(f"{read}: vec4<f32>" for read, _ in kept)))
    values = ", ".join(("k", *(_of_columns(read, reach) for read, reach in kept)))
    yield f"struct {column} {{ {fields} }}"
    yield f"fn column4_{name}(k: u32) -> {column} {{ return {column}({values}); }}"
    lines = [f"let v0 = load4_{name}(place + column.k);"]
    for number, step in enumerate(binding.prepended, start=1):
        given = {read: _of_row(f"{step.prefix}{read}", reach) for read, _, reach in step.reads}
        lines.append(f"let v{number} = {held(step.dtype, value_of(step, given, '4'), 4)};")
    yield f"{row} {{ {' '.join(lines)} return v{len(binding.prepended)}; }}"


def _elements(binding: Binding) -> Iterator[str]:
    """Write first_<name> and first4_<name>, which loads call, and what these call."""
    assert binding.dtype is not None
    element = element_type(binding.dtype)
    for step in binding.prepended:
        yield from functions(step, fours=True)
    for count, suffix, kind in ((1, "", element), (4, "4", vector_type(element))):
        lines = ["let v0 = value;"]
        for number, (step, value) in enumerate(values_of(binding.prepended, count), start=1):
            lines.append(f"let v{number} = {held(step.dtype, value, count)};")
        text = f"{' '.join(lines)} return v{len(binding.prepended)};"
        yield f"fn first{suffix}_{binding.name}(i: u32, value: {kind}) -> {kind} {{ {text} }}"


def _of_columns(read: str, reach: Reach) -> str:
    """Write the elements of an operand that belong to the four columns from 4 k on, in all rows."""
    return f"vec4<f32>(load_{read}(0u))" if reach is Reach.FIRST else f"load4_{read}(k)"


def _of_row(read: str, reach: Reach) -> str:
    """Write the elements of an operand that belong to four columns in the row at a place."""
    if not reach.in_parts:
        return f"column.{read}"
    return f"load4_{read}(place / (p.{read}_every / 4u) * (p.{read}_period / 4u) + column.k)"
