"""Operands in a shader: their layout on the device, and the functions that load and store them.

shaders/README.md describes both for authors of shaders.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpunn.backends.webgpu.in_rows import computed, from_rows, in_rows, place, row_loads, row_stores
from gpunn.kernel import Segments
from gpunn.pointwise import Appended
from gpunn.types import DType

# Dtypes of two words, vec2s of lib/int64.wgsl and lib/complex.wgsl; WGSL has no vectors of these.
DOUBLE_TYPES = {DType.INT64: "I64", DType.COMPLEX64: "C64"}

# Dtypes whose elements are whole 32-bit words on the device.
WORD_TYPES = {DType.FLOAT32: "f32", DType.INT32: "i32", **DOUBLE_TYPES}

HALF = DType.FLOAT16

_VERBS = ("load", "load4", "loadv", "splat", "int", "word", "store", "store4", "storev")

# Dtypes of which four elements share a word, computed in i32: which function of shaders/lib/bytes.wgsl
# gives them, and the type whose extractBits() extends the sign as the dtype asks.
PACKED_TYPES = {
    DType.UINT8: ("unsigned", "u32"),
    DType.BOOL: ("unsigned", "u32"),
    DType.INT8: ("signed", "i32"),
}


class Pair(NamedTuple):
    """WGSL for two elements that share a word.

    `one`: the element at `shift` in `word`; `four`: the function of shaders/lib/pairs.wgsl for those of two
    words; `part`: v in the low bits of a word; `words`: the two words of a v of four elements.
    """

    one: str
    four: str
    part: str
    words: str


# Neither needs a device feature: float16 is computed in f32, and lib/half.wgsl rounds it; int16 in i32.
PAIRED_TYPES = {
    HALF: Pair(
        "unpack2x16float({word} >> ({shift})).x",
        "four_halves",
        "half_words(vec4<f32>(v)).x",
        "half_words(v)",
    ),
    DType.INT16: Pair(
        "extractBits(bitcast<i32>({word}), {shift}, 16u)",
        "four_shorts",
        "u32(v)",
        "(vec2<u32>(v.xz) & vec2<u32>(0xffffu)) | (vec2<u32>(v.yw) << vec2<u32>(16u))",
    ),
}


class Binding(NamedTuple):
    """One operand as the shader sees it; dtype None: absent, every load gives 0.

    `stored`: a result. `shared`: lives in a buffer that the dispatch also writes; since a buffer may not be
    bound for reading and for writing in one dispatch, even over disjoint ranges, all of it is bound writable.
    Dtypes of less than a word are stored four at a time by the invocation that owns these, or one by one
    through atomics where a body stores single elements. `segments`: it is bound several times, a part each.
    `rows`: the accessors find it in rows of a larger tensor; 4: in fours, 1: in single elements, 0: they
    do not. `levels`: in so many rows within rows.
    `appended`: the body stores elements of `computed`; what lies there is the last of these operations', if
    it is `optional` and p.then_on is 0, what the body stores. `prepended`: loads by rows compute these;
    `by_elements`: load_ and its kind do.
    `wide`: bound as words of 64 bits, unless the code stores single elements. `in_loop`: the body computes
    the appended operations, not its stores. `within`: the result in whose binding it lies, a part of one
    tensor as the other.
    """

    name: str
    dtype: DType | None
    width: int
    stored: bool
    shared: bool
    segments: Segments | None = None
    rows: int = 0
    levels: int = 0
    appended: tuple[Appended, ...] = ()
    optional: bool = False
    computed: DType | None = None
    prepended: tuple[Appended, ...] = ()
    by_elements: bool = False
    wide: bool = False
    in_loop: bool = False
    within: str = ""

    @property
    def data(self) -> str:
        """Return the variable of its elements."""
        return f"{self.within or self.name}_data"

    @property
    def fours(self) -> bool:
        """Tell whether it is bound as vec4."""
        return self.width == 4 and self.dtype not in DOUBLE_TYPES


def has_wide_words(binding: Binding) -> bool:
    """Tell whether four elements of an operand can be two words of 64 bits."""
    return binding.fours and binding.dtype in WORD_TYPES


def is_wide(binding: Binding, lanes: int, names: frozenset[str]) -> bool:
    """Tell whether an operand is bound as words of 64 bits."""
    return binding.wide and (not binding.stored or stores_by(binding, lanes, names) == [4])


def element_type(dtype: DType) -> str:
    """Return the WGSL type in which elements of a dtype are computed."""
    return "f32" if dtype is HALF else WORD_TYPES.get(dtype, "i32")


def vector_type(element: str) -> str:
    """Return the WGSL type of four elements; vectors contain only numbers."""
    return f"array<{element}, 4>" if element in DOUBLE_TYPES.values() else f"vec4<{element}>"


def stores_by(binding: Binding, lanes: int, names: frozenset[str]) -> list[int]:
    """Return how many elements the stores of an operand that the code names take: 1, 4, or both."""
    forms = {1: ["store"], 4: ["store4"]}
    forms[lanes].append("storev")
    return [count for count, verbs in forms.items() if any(f"{v}_{binding.name}" in names for v in verbs)]


def held(dtype: DType, value: str, count: int = 1) -> str:
    """Write what a tensor holds of a value, or of four: what loads give."""
    if dtype in PACKED_TYPES:
        kinds = PACKED_TYPES[dtype][1], "i32"
        kind, integer = map(vector_type, kinds) if count == 4 else kinds
        return f"{integer}(extractBits({kind}({value}), 0u, 8u))"
    if dtype is HALF:
        return f"held_half{'4' if count == 4 else ''}({value})"
    return value if dtype in WORD_TYPES else f"extractBits({value}, 0u, 16u)"


def _by_parts(binding: Binding, lanes: int, names: frozenset[str]) -> bool:
    """Tell whether the code stores single elements of words, which other invocations may share."""
    return binding.stored and binding.dtype not in WORD_TYPES and 1 in stores_by(binding, lanes, names)


def _segments(binding: Binding, names: frozenset[str]) -> list[tuple[Binding, frozenset[str]]]:
    """Return the segments of an operand, each with the names of its accessors that are needed."""
    assert binding.segments is not None
    found = []
    for k in range(binding.segments.count):
        name = f"{binding.name}_segment{k}"
        verbs = (verb for verb in _VERBS if f"{verb}_{binding.name}" in names)
        own = frozenset(f"{verb}_{name}" for verb in verbs)
        found.append((binding._replace(name=name, segments=None), own))
    return found


def variables(binding: Binding, slot: int, lanes: int, names: frozenset[str]) -> Iterator[str]:
    """Write the declaration of each of an operand's buffers, a line each."""
    if binding.dtype is None or binding.within:
        return
    if binding.segments is not None:
        for k, (segment, own) in enumerate(_segments(binding, names)):
            yield from variables(segment, slot + k, lanes, own)
        return
    if _by_parts(binding, lanes, names):
        element = "atomic<u32>"
    elif binding.dtype in PACKED_TYPES:
        element = "u32"
    elif binding.dtype in PAIRED_TYPES:
        element = "vec2<u32>" if binding.fours else "u32"
    else:
        element = WORD_TYPES[binding.dtype]
        element = vector_type(element) if binding.fours else element
        element = "vec2<u64>" if is_wide(binding, lanes, names) else element
    access = "read_write" if binding.shared else "read"
    yield f"@group(0) @binding({slot}) var<storage, {access}> {binding.data}: array<{element}>;"


def accessors(binding: Binding, result: str, lanes: int, names: frozenset[str]) -> Iterator[str]:
    """Write load_, load4_, loadv_, splat_, int_, word_ (or store_...) of an operand, those that the code
    names.
    """
    binding = binding._replace(wide=is_wide(binding, lanes, names))
    segments = [] if binding.segments is None else _segments(binding, names)
    for segment, own in segments:
        yield from accessors(segment, result, lanes, own)
    if binding.stored:
        if f"switched_{binding.name}" in names:
            yield from _switch(binding, result)
        one, four = _stores(binding, _by_parts(binding, lanes, names))
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
    if not binding.appended or binding.in_loop:
        return f"fn {verb}_{binding.name}(i: u32, v: {kind}) {{ {body} }}"
    final = f"let v = final{'4' if count == 4 else ''}_{binding.name}(i, value);"
    return f"fn {verb}_{binding.name}(i: u32, value: {kind}) {{ {final} {body} }}"


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
            word, words = f"{data}[i >> 2u][(i >> 1u) & 1u]", f"{data}[i]"
        return pair.one.format(word=word, shift="(i & 1u) * 16u"), f"{pair.four}({words})"
    if binding.wide:
        four = f"bitcast<{vector_type(scalar)}>(four_words({data}[{{}}]))"
        return f"{four.format('i >> 2u')}[i & 3u]", four.format("i")
    if binding.fours:
        return f"{data}[i >> 2u][i & 3u]", f"{data}[i]"
    return f"{data}[i]", f"{vector_type(scalar)}({', '.join(f'{data}[4u * i + {k}u]' for k in range(4))})"


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
