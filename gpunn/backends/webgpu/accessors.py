"""The functions of a shader that load and store operands.

shaders/README.md describes them for authors of shaders.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpunn.backends.webgpu.bindings import (
    PACKED_TYPES,
    PAIRED_TYPES,
    Binding,
    Pair,
    by_parts,
    element_type,
    in_buffers,
    is_wide,
    vector_type,
)
from gpunn.backends.webgpu.in_rows import computed, from_rows, in_rows, place, row_loads, row_stores


def accessors(binding: Binding, result: str, lanes: int, names: frozenset[str]) -> Iterator[str]:
    """Write load_, load4_, loadv_, splat_, int_, word_ (or store_...) of an operand, those that the code
    names.
    """
    binding = binding._replace(wide=is_wide(binding, lanes, names))
    segments = [] if binding.segments is None else in_buffers(binding, names)
    for segment, own in segments:
        yield from accessors(segment, result, lanes, own)
    if binding.stored:
        if f"switched_{binding.name}" in names:
            yield from _switch(binding, result)
        one, four = _stores(binding, by_parts(binding, lanes, names))
        element, fours, vector = stored_types(binding, result, lanes)
        forms = {
            "store": (element, one),
            "store4": (fours, four),
            "storev": (vector, four if lanes == 4 else one),
        }
        if binding.rows:
            element = element_type(binding.dtype) if binding.dtype is not None else "f32"
            yield place(binding.name, binding.rows, binding.levels)
            yield from row_stores(binding.name, element, vector_type(element), (one, four))
        for verb, (kind, statement) in forms.items():
            if f"{verb}_{binding.name}" in names:
                body = _in_segment(binding, verb, lanes, "v") if segments else statement
                body = in_rows(binding.name, binding.rows, _count(verb, lanes)) if binding.rows else body
                yield store_function(binding, verb, kind, _count(verb, lanes), body)
        if f"stores_{binding.name}" in names:
            by_words = binding.dtype in PACKED_TYPES and not (binding.rows or segments)
            body = _words_of_bytes(binding.data) if by_words and not _computes(binding) else ""
            yield stores(binding.name, fours, body)
        return
    scalar = result if binding.dtype is None else element_type(binding.dtype)
    vector = vector_type(scalar)
    one, four = _loads(binding, scalar)
    if binding.rows:
        yield place(binding.name, binding.rows, binding.levels)
        yield from row_loads(binding.name, scalar, vector, (one, four))
        one, four = from_rows(binding.name, binding.rows, vector)
    if binding.by_elements and binding.prepended:
        raw, one, four = computed(binding.name, scalar, vector, (one, four))
        yield from raw
    same = f"{vector}({', '.join([one] * (4 if vector.startswith('array') else 1))})"
    results = {
        "load": (scalar, one),
        "load4": (vector, four),
        "loadv": (vector, four) if lanes == 4 else (scalar, one),
        "splat": (vector, same) if lanes == 4 else (scalar, one),
        "int": ("i32", f"i64_to_i32({one})" if scalar == "I64" else f"i32({one})"),
        "word": ("u32", f"{binding.data}[i]"),
    }
    for alias, kind in ((f"T_{binding.name}", scalar), (f"V_{binding.name}", results["loadv"][0])):
        if alias in names:
            yield f"alias {alias} = {kind};"
    for verb, (result, expression) in results.items():
        if f"{verb}_{binding.name}" in names:
            body = _in_segment(binding, verb, lanes) if segments else f"return {expression};"
            yield f"fn {verb}_{binding.name}(i: u32) -> {result} {{ {body} }}"


def stored_types(binding: Binding, result: str, lanes: int) -> tuple[str, str, str]:
    """Return the types that store_, store4_ and storev_ of an operand take; result: what T is."""
    scalar = result if binding.dtype is None else element_type(binding.computed or binding.dtype)
    if scalar == result:
        return "T", vector_type(scalar), "V"
    return scalar, vector_type(scalar), vector_type(scalar) if lanes == 4 else scalar


def store_function(binding: Binding, verb: str, kind: str, count: int, body: str) -> str:
    """Write an accessor that stores a v of some type, one element or four, by the statements of `body`.

    What is stored is the result of the appended operations, if there are some.
    """
    if not _computes(binding):
        return f"fn {verb}_{binding.name}(i: u32, v: {kind}) {{ {body} }}"
    final = f"let v = final{'4' if count == 4 else ''}_{binding.name}(i, value);"
    return f"fn {verb}_{binding.name}(i: u32, value: {kind}) {{ {final} {body} }}"


def _computes(binding: Binding) -> bool:
    """Tell whether stores compute appended operations."""
    return bool(binding.appended) and not binding.in_loop


def stores(name: str, vector: str, body: str = "") -> str:
    """Write stores_<name>, which stores some of four elements at any place; by default one by one."""
    singles = (f"if (count > {k}u) {{ store_{name}(i + {k}u, v[{k}]); }}" for k in range(4))
    return f"fn stores_{name}(i: u32, count: u32, v: {vector}) {{ {body or ' '.join(singles)} }}"


def _switch(binding: Binding, result: str) -> Iterator[str]:
    """Write switched_<name>(), and appended4_<name>() where the body computes no appended operations."""
    name, vector = binding.name, vector_type(result)
    yield f"fn switched_{name}() -> u32 {{ return {'p.then_on' if binding.in_loop else '0u'}; }}"
    if not binding.in_loop:
        yield f"fn appended4_{name}(i: u32, v: {vector}) -> {vector} {{ return v; }}"


def _count(verb: str, lanes: int) -> int:
    """Count the elements that an accessor reads or stores."""
    return 4 if verb.endswith("4") or (verb.endswith("v") and lanes == 4) else 1


def _in_segment(binding: Binding, verb: str, lanes: int, value: str = "") -> str:
    """Write statements that call an accessor of the segment that has element i, or the four or the word i."""
    assert binding.segments is not None
    assert binding.dtype is not None
    unit = 4 if verb == "word" else binding.dtype.numpy.itemsize * _count(verb, lanes)
    size, last = binding.segments.nbytes // unit, binding.segments.count - 1
    calls = []
    for k in range(last + 1):
        place = ", ".join(filter(None, (f"i - {k * size}u" if k else "i", value)))
        call = f"{verb}_{binding.name}_segment{k}({place});"
        call = call if value else f"return {call}"
        end = " return;" if value else ""
        calls.append(call if k == last else f"if (i < {(k + 1) * size}u) {{ {call}{end} }}")
    return " ".join(calls)


def _four(binding: Binding, place: str) -> str:
    """Write WGSL for the words of four elements that are bound together, at a place among such fours."""
    if binding.texture:
        return binding.texture.load(binding.data, place)
    four = f"{binding.data}[{place}]"
    if not binding.wide:
        return four
    assert binding.dtype is not None
    return f"bitcast<{vector_type(element_type(binding.dtype))}>(four_words({four}))"


def _word(binding: Binding, place: str) -> str:
    """Write WGSL for an element that is bound alone."""
    return binding.texture.load(binding.data, place) if binding.texture else f"{binding.data}[{place}]"


def _loads(binding: Binding, scalar: str) -> tuple[str, str]:
    """Return expressions for element i and for the four elements from 4 i on; `scalar`: an element's type."""
    data = binding.data
    if binding.dtype is None:
        return f"{scalar}()", f"{vector_type(scalar)}()"
    if binding.dtype in PACKED_TYPES:
        signs, kind = PACKED_TYPES[binding.dtype]
        one = f"i32(extractBits(bitcast<{kind}>({data}[i >> 2u]), (i & 3u) * 8u, 8u))"
        return one, f"{signs}_bytes({data}[i])"
    if binding.dtype in PAIRED_TYPES:
        pair = PAIRED_TYPES[binding.dtype]
        word, words = f"{data}[i >> 1u]", f"vec2<u32>({data}[2u * i], {data}[2u * i + 1u])"
        if binding.fours:
            word, words = f"{_four(binding, 'i >> 2u')}[(i >> 1u) & 1u]", _four(binding, "i")
        return pair.one.format(word=word, shift="(i & 1u) * 16u"), f"{pair.four}({words})"
    if binding.fours:
        return f"{_four(binding, 'i >> 2u')}[i & 3u]", _four(binding, "i")
    four = ", ".join(_word(binding, f"4u * i + {k}u") for k in range(4))
    return _word(binding, "i"), f"{vector_type(scalar)}({four})"


def _stores(binding: Binding, by_parts: bool) -> tuple[str, str]:
    """Return statements that store v as element i, and as the four elements from 4 i on."""
    data = binding.data
    if binding.dtype in PACKED_TYPES:
        word = "packed_bytes(vec4<u32>(v))"
        if by_parts:
            return _into_word(data, 4, "u32(v)"), f"atomicStore(&{data}[i], {word});"
        return "", f"{data}[i] = {word};"
    if binding.dtype in PAIRED_TYPES:
        return _pair_stores(data, PAIRED_TYPES[binding.dtype], binding.width, by_parts)
    if binding.wide:
        return "", f"{data}[i] = wide_words(bitcast<vec4<u32>>(v));"
    if binding.fours:
        return f"{data}[i >> 2u][i & 3u] = v;", f"{data}[i] = v;"
    components = " ".join(f"{data}[4u * i + {k}u] = v[{k}];" for k in range(4))
    return f"{data}[i] = v;", components


def _words_of_bytes(data: str) -> str:
    """Write statements that store `count` bytes of v from element i on: a word, or parts of two."""
    return (
        "let s = (i & 3u) * 8u; let mask = 0xffffffffu >> (32u - count * 8u); "
        "let w = packed_bytes(vec4<u32>(v)) & mask; "
        f"if (s == 0u && count == 4u) {{ atomicStore(&{data}[i >> 2u], w); return; }} "
        f"atomicAnd(&{data}[i >> 2u], ~(mask << s)); atomicOr(&{data}[i >> 2u], w << s); "
        "if (s + count * 8u > 32u) { "
        f"atomicAnd(&{data}[(i >> 2u) + 1u], ~(mask >> (32u - s))); "
        f"atomicOr(&{data}[(i >> 2u) + 1u], w >> (32u - s)); }}"
    )


def _pair_stores(data: str, pair: Pair, width: int, by_parts: bool) -> tuple[str, str]:
    low, high = f"{data}[2u * i]", f"{data}[2u * i + 1u]"
    words = f"let w = {pair.words};"
    if by_parts:
        both = f"{words} atomicStore(&{low}, w.x); atomicStore(&{high}, w.y);"
        return _into_word(data, 2, pair.part), both
    if width == 4:
        return "", f"{data}[i] = {pair.words};"
    return "", f"{words} {low} = w.x; {high} = w.y;"


def _into_word(data: str, parts: int, bits: str) -> str:
    """Write statements that store the low bits of a number as element i, of which `parts` share a word."""
    width = 32 // parts
    mask, word = f"0x{(1 << width) - 1:x}u", f"&{data}[i / {parts}u]"
    shift = f"let s = (i % {parts}u) * {width}u;"
    return f"{shift} atomicAnd({word}, ~({mask} << s)); atomicOr({word}, (({bits}) & {mask}) << s);"
