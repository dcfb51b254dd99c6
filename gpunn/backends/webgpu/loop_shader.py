"""WGSL of a loop: the shaders of a body's kernels as functions of one shader that one workgroup runs.

In a shader of its own a kernel has buffers for its operands and a uniform buffer for its parameters. Here
all operands lie in one buffer, `memory`, and all constants in another, `table`, with a 32-bit word for each
element, two for int64. The memory is bound by vectors of four words, and `fours` is the table bound like
this. A kernel's shader becomes functions whose names begin with a prefix of its own; private variables say
where its operands lie and what its parameters are.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Set
from dataclasses import replace
from typing import NamedTuple

from gpunn.backends.webgpu.accessors import store_function, stored_types, stores
from gpunn.backends.webgpu.bindings import (
    HALF,
    PACKED_TYPES,
    WORD_TYPES,
    Binding,
    element_type,
    held,
    stores_by,
    vector_type,
)
from gpunn.backends.webgpu.in_rows import computed, from_rows, in_rows, row_loads, row_stores
from gpunn.backends.webgpu.shader import ShaderKey, computed_type, parts, read_body, with_dependencies
from gpunn.backends.webgpu.wgsl import identifiers, used_libraries, without_comments
from gpunn.kernel import Kernel, Unsupported, flat_threads
from gpunn.types import DType

MEMORY, TABLE, FOURS = "memory", "table", "fours"
WIDTH = 64  # invocations of the workgroup, as of nearly all kernels
NARROW = 8  # invocations that lavapipe computes at once; those of a workgroup that are idle take as long
_ELEMENT_BYTES = 32
_NAMED = re.compile(r"\b(?:fn|const|alias|struct|override|var(?:\s*<[^>]*>)?)\s+([^\W\d]\w*)")
_IDENTIFIER = re.compile(r"(?<![\w.])[^\W\d]\w*")
_STRUCT = re.compile(r"\bstruct\s+\w+\s*(\{[^}]*\})")
_MEMBER = re.compile(r"[^\W\d]\w*(?=\s*:)")
_ENTRY = re.compile(r"@compute\s*@workgroup_size\([^)]*\)|@builtin\([^)]*\)")
_BUFFER = re.compile(r"^@group\(0\) @binding\(\d+\) var<(storage|uniform)[^>]*> (\w+): ([^;]*);$")
_ACCESSOR = re.compile(r"^fn (load4?v?|splat|int|word|stores?4?v?|put4?|get4?|raw4?)_(\w+)\(")


def words(dtype: DType) -> int:
    """Return how many words of memory an element takes. Raises Unsupported for complex numbers."""
    if dtype is DType.COMPLEX64:
        raise Unsupported("complex numbers have no form in a loop's memory")
    return 2 if dtype is DType.INT64 else 1


class Variant(NamedTuple):
    """A kernel's shader inside a loop: its key, which of its operands are constants, and whether these can
    be loaded by fours.
    """

    key: ShaderKey
    constants: frozenset[str]
    fours: bool = True


def with_width(kernel: Kernel, width: int) -> Kernel | None:
    """Return a kernel for workgroups of so many invocations; None if its body needs others."""
    if kernel.workgroup == (width, 1, 1):
        return kernel
    if _is_flat(kernel.body):
        count = kernel.params["count"]
        assert isinstance(count, int)
        return replace(kernel, threads=flat_threads(count, width), workgroup=(width, 1, 1))
    return replace(kernel, workgroup=(width, 1, 1)) if kernel.any_width else None


@functools.cache
def _is_flat(body: str) -> bool:
    """Tell whether the invocations of a body are independent of each other (lib/flat.wgsl)."""
    return "flat" in with_dependencies(used_libraries(read_body(body)))


@functools.lru_cache(maxsize=256)
def functions(variant: Variant, prefix: str) -> str:
    """Return the shader of a variant as functions; `<prefix>main(at)` runs an invocation.

    Raises Unsupported for a shader with an entry point of its own or subgroups, and for complex numbers.
    """
    key = variant.key
    text = "\n".join(without_comments(part.text) for part in parts(key))
    names = identifiers(text)
    for dtype in (b.dtype for b in key.bindings if b.dtype is not None):
        words(dtype)
    if "fn main(at: Invocation)" not in text:
        raise Unsupported(f"{key.body} has an entry point of its own")
    if "subgroupBroadcast" in names:  # the workgroup that runs it may have other subgroups
        raise Unsupported(f"{key.body} shares values in subgroups")
    operands = {b.name for b in key.bindings}
    lines = (_declaration(line, operands) for line in text.split("\n"))
    kept = [line for line in lines if line is not None]
    result = computed_type(key)
    accessors = [a for b in key.bindings for a in _accessors(b, result, variant, names)]
    return _prefixed(_ENTRY.sub("", "\n".join((*kept, *accessors))), prefix)


def has_form(variant: Variant) -> bool:
    """Tell whether functions() can write a variant."""
    try:
        functions(variant, "")
    except Unsupported:
        return False
    return True


def _declaration(line: str, operands: Set[str]) -> str | None:
    """Return a line as it stands in a loop; None for a declaration that has another form there."""
    buffer = _BUFFER.match(line)
    if buffer is not None:
        return f"var<private> p: {buffer[3]};" if buffer[1] == "uniform" else None
    accessor = _ACCESSOR.match(line)
    return None if accessor is not None and accessor[2] in operands else line


def _prefixed(text: str, prefix: str) -> str:
    """Put a prefix before the names that a shader declares outside of functions; members keep theirs."""
    declared: set[str] = set()
    depth = place = 0
    for mark in re.finditer(r"[{}]", text):
        if depth == 0:
            declared.update(_NAMED.findall(text, place, mark.start()))
        depth += 1 if mark.group() == "{" else -1
        place = mark.end()
    declared.update(_NAMED.findall(text, place))
    bodies = (body.span(1) for body in _STRUCT.finditer(text))
    members = {member.start() for span in bodies for member in _MEMBER.finditer(text, *span)}

    def renamed(name: re.Match[str]) -> str:
        ours = name.group() in declared and name.start() not in members
        return prefix + name.group() if ours else name.group()

    return _IDENTIFIER.sub(renamed, text)


def _accessors(binding: Binding, result: str, variant: Variant, names: frozenset[str]) -> Iterator[str]:
    """Write the functions of an operand that a shader names (see shaders/README.md)."""
    name, dtype = binding.name, binding.dtype
    scalar = result if dtype is None else element_type(dtype)
    lanes = variant.key.lanes
    if dtype is not None:
        yield f"var<private> {name}_at: u32;"
    if binding.stored:
        assert dtype is not None
        yield from _stores(binding, dtype, result, lanes, names)
        return
    computes = bool(binding.by_elements and binding.prepended)
    vector, get = vector_type(scalar), "get" if binding.rows else "raw" if computes else "load"
    four = f"{vector}({', '.join(f'{get}_{name}(4u * i + {k}u)' for k in range(4))})"
    known = name in variant.constants
    if dtype is not None and scalar != "I64" and (variant.fours or not known):
        place = f"({name}_at >> 2u) + i"
        words_of_four = f"load4_{FOURS}({place})" if known else f"{MEMORY}_data[{place}]"
        four = words_of_four if scalar == "i32" else f"bitcast<{vector}>({words_of_four})"
    same = f"{vector}({', '.join([f'load_{name}(i)'] * 4)})"
    one, load = f"load_{name}(i)", _load(binding, scalar, variant)
    if binding.rows:
        yield from row_loads(name, scalar, vector, (load, four))
        load, four = from_rows(name, binding.rows, vector)
    if computes:
        raw, load, four = computed(name, scalar, vector, (load, four))
        yield from raw
    yield f"fn load_{name}(i: u32) -> {scalar} {{ return {load}; }}"
    forms = {
        "load4": (vector, four),
        "loadv": (vector, four) if lanes == 4 else (scalar, one),
        "splat": (vector, same) if lanes == 4 else (scalar, one),
        "int": ("i32", f"i64_to_i32({one})" if scalar == "I64" else f"i32({one})"),
        "word": ("u32", _word(name, dtype)),
    }
    for verb, (kind, expression) in forms.items():
        if f"{verb}_{name}" in names:
            yield f"fn {verb}_{name}(i: u32) -> {kind} {{ return {expression}; }}"


def _word(name: str, dtype: DType | None) -> str:
    """Write word i of an operand as it lies in a buffer of its own: several elements of less than a word."""
    if dtype in PACKED_TYPES:
        elements = ", ".join(f"load_{name}(4u * i + {k}u)" for k in range(4))
        return f"pack4xU8(vec4<u32>(vec4<i32>({elements})))"
    halves = [f"load_{name}(2u * i + {k}u)" for k in range(2)]
    if dtype is HALF:
        return f"pack2x16float(vec2<f32>({', '.join(halves)}))"
    low, high = (f"u32({half})" for half in halves)
    return f"(({low} & 0xffffu) | ({high} << 16u))"


def _load(binding: Binding, scalar: str, variant: Variant) -> str:
    if binding.dtype is None:
        return f"{scalar}()"
    word = "entry({})" if binding.name in variant.constants else "memory_word({})"
    if scalar == "I64":
        place = f"{binding.name}_at + 2u * i"
        low, high = word.format(place), word.format(f"{place} + 1u")
        return f"I64(bitcast<u32>({low}), bitcast<u32>({high}))"
    one = word.format(f"{binding.name}_at + i")
    return one if scalar == "i32" else f"bitcast<{scalar}>({one})"


def _stores(binding: Binding, dtype: DType, result: str, lanes: int, names: frozenset[str]) -> Iterator[str]:
    """Write the functions that store a result, also those that accessors() calls for one in rows."""
    name = binding.name
    one = "put" if binding.rows else "store"
    several = " ".join(f"{one}_{name}(4u * i + {k}u, v[{k}]);" for k in range(4))
    if dtype is DType.INT64:
        place = f"{name}_at + 2u * i"
        store = f"put_word({place}, bitcast<i32>(v.x)); put_word({place} + 1u, bitcast<i32>(v.y));"
    else:
        store = f"put_word({name}_at + i, {_stored(dtype)});"
        words = ", ".join(_stored(dtype, f"v[{k}]") for k in range(4))
        several = f"{MEMORY}_data[({name}_at >> 2u) + i] = vec4<i32>({words});"
    if binding.rows:
        element = element_type(dtype)
        yield from row_stores(name, element, vector_type(element), (store, several))
        store, several = in_rows(name, binding.rows, 1), in_rows(name, binding.rows, 4)
    single, fours, vector = stored_types(binding, result, lanes)
    if not binding.appended or 1 in stores_by(binding, lanes, names):
        yield store_function(binding, "store", single, 1, store)
    if f"store4_{name}" in names:
        yield store_function(binding, "store4", fours, 4, several)
    if f"storev_{name}" in names and lanes == 4:
        yield store_function(binding, "storev", vector, 4, several)
    elif f"storev_{name}" in names:
        yield f"fn storev_{name}(i: u32, v: {vector}) {{ store_{name}(i, v); }}"
    if f"stores_{name}" in names:
        yield stores(name, fours)


def _stored(dtype: DType, v: str = "v") -> str:
    """Write the word of a v in memory: what a smaller type holds of it, as a load gives it."""
    if dtype is HALF:
        return f"bitcast<i32>(unpack2x16float(half_words(vec4<f32>({v})).x).x)"
    value = held(dtype, v)
    return f"bitcast<i32>({value})" if dtype in WORD_TYPES and dtype is not DType.INT32 else value


def workgroup_bytes(text: str) -> int:
    """Return how many bytes of workgroup memory a shader takes at most.

    Its arrays have elements of up to 32 bytes, and as many as the workgroup has invocations, times numbers.
    """
    arrays = re.findall(r"var<workgroup>\s*\w+\s*:\s*array<([^;]*>);", text)
    constants = dict(re.findall(r"\bconst (\w+): u32 = (\d+)u;", text))

    def number(factor: str) -> int:
        return int(constants.get(factor, factor.removesuffix("u") if factor[0].isdigit() else WIDTH))

    extents = (re.findall(r",([^,<>]*)>", array) for array in arrays)
    factors = (re.findall(r"\w+", "*".join(found)) for found in extents)
    return sum(_ELEMENT_BYTES * math.prod(map(number, found)) for found in factors)


def unbound(key: ShaderKey) -> ShaderKey:
    """Return a key without what makes no difference inside a loop."""
    bindings = tuple(b._replace(shared=True, wide=False, texels=False) for b in key.bindings)
    return key._replace(bindings=bindings, inlined=())
