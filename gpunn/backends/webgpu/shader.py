"""Kernel + shaders/*.wgsl -> WGSL source; the compiler's complaints mapped back to file and line.

A body file comes first and untouched, so the compiler's line numbers are the file's own; everything it
leaves open is appended (WGSL's module scope is free of order): aliases, constants, `struct P`, bindings,
an accessor per operand and the generated functions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Protocol

from gpunn.errors import DeviceError
from gpunn.kernel import Function, Kernel, Param, Read, Scratch, Write
from gpunn.operation import Operand, Operation
from gpunn.types import DType

# Dtypes whose elements are whole 32-bit words on the device; int64 is two, computed by lib/wide.wgsl.
WORD_TYPES = {DType.FLOAT32: "f32", DType.INT32: "i32", DType.INT64: "Wide"}

HALF = DType.FLOAT16

# Dtypes of which four elements share a word, computed in i32: the letter of WGSL's unpack functions, and the
# type whose extractBits() extends the sign as the dtype asks.
PACKED_TYPES = {DType.UINT8: ("U", "u32"), DType.BOOL: ("U", "u32"), DType.INT8: ("I", "i32")}


@dataclass(frozen=True, slots=True)
class Pair:
    """WGSL for two elements that share a word.

    `one`: the element at `shift` in `word`; `four`: those of the words `a` and `b`; `part`: v in the low bits
    of a word; `words`: the two words of a v of four elements.
    """

    one: str
    four: str
    part: str
    words: str


# Neither needs a device feature: float16 is computed in f32, and lib/half.wgsl rounds it; int16 in i32.
PAIRED_TYPES = {
    HALF: Pair(
        "unpack2x16float({word} >> ({shift})).x",
        "vec4<f32>(unpack2x16float({a}), unpack2x16float({b}))",
        "half_words(vec4<f32>(v)).x",
        "half_words(v)",
    ),
    DType.INT16: Pair(
        "extractBits(bitcast<i32>({word}), {shift}, 16u)",
        "vec4<i32>(vec4<u32>({a} << 16u, {a}, {b} << 16u, {b})) >> vec4<u32>(16u)",
        "u32(v)",
        "(vec2<u32>(v.xz) & vec2<u32>(0xffffu)) | (vec2<u32>(v.yw) << vec2<u32>(16u))",
    ),
}

_USES = re.compile(r"^//!use (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Binding:
    """One operand as the shader sees it; dtype None: absent, every load gives 0.

    `stored`: a result. `shared`: lives in an arena with others; since a buffer may not be bound for
    reading and for writing in one dispatch, even over disjoint ranges, all of an arena is bound writable.
    Dtypes of less than a word are stored four at a time by the invocation that owns these, or one by one
    through atomics where a body stores single elements.
    """

    name: str
    dtype: DType | None
    width: int
    stored: bool
    shared: bool

    @property
    def fours(self) -> bool:
        """Whether it is bound as vec4."""
        return self.width == 4 and self.dtype is not DType.INT64


@dataclass(frozen=True, slots=True)
class ShaderKey:
    """All that makes one pipeline differ from another; sizes and numbers (`p`) are not part of it."""

    body: str
    workgroup: tuple[int, int, int]
    bindings: tuple[Binding, ...]
    params: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, int], ...]
    functions: tuple[tuple[str, Function], ...]
    libraries: tuple[str, ...]
    lanes: int


class _Folder(Protocol):
    def joinpath(self, name: str, /) -> _Folder: ...
    def is_dir(self) -> bool: ...
    def read_text(self, encoding: str) -> str: ...


@functools.cache
def shader_folder() -> _Folder:
    """gpunn/shaders of an installed package, or shaders/ beside gpunn/ in a source checkout."""
    installed: _Folder = resources.files("gpunn").joinpath("shaders")
    if installed.is_dir():
        return installed
    return Path(__file__).resolve().parents[3] / "shaders"


@functools.cache
def read_body(name: str) -> str:
    """The text of shaders/<name>.wgsl."""
    return shader_folder().joinpath(f"{name}.wgsl").read_text(encoding="utf-8")


def param_type(value: Param) -> str:
    """The WGSL type of a parameter."""
    if isinstance(value, tuple):
        return "vec4<i32>" if len(value) == 4 else "vec2<u32>"
    return "f32" if isinstance(value, float) else "u32"


def key_of(kernel: Kernel, operation: Operation) -> ShaderKey:
    """The ShaderKey of a kernel of an operation."""
    reads = (_read_binding(r, source(r, operation)) for r in kernel.reads)
    writes = (Binding(w.name, target(w, operation).type.dtype, w.width, True, True) for w in kernel.writes)
    return ShaderKey(
        body=kernel.body,
        workgroup=kernel.workgroup,
        bindings=(*reads, *writes),
        params=tuple((name, param_type(value)) for name, value in ordered_params(kernel)),
        constants=tuple(sorted(kernel.constants.items())),
        functions=tuple(sorted(kernel.functions.items())),
        libraries=kernel.libraries,
        lanes=kernel.lanes,
    )


def source(read: Read, operation: Operation) -> Operand | Scratch | None:
    """What a kernel of an operation reads; None where that is absent, or a table of the kernel's own."""
    return operation.inputs[read.operand] if isinstance(read.operand, int) else read.operand


def target(write: Write, operation: Operation) -> Operand | Scratch:
    """What a kernel of an operation writes."""
    return operation.outputs[write.output] if isinstance(write.output, int) else write.output


def _read_binding(read: Read, tensor: Operand | Scratch | None) -> Binding:
    if read.value is not None:
        return Binding(read.name, DType.of(read.value.dtype), read.width, False, False)
    if tensor is None:
        return Binding(read.name, None, read.width, False, False)
    shared = isinstance(tensor, Scratch) or tensor.value is None
    return Binding(read.name, read.dtype or tensor.type.dtype, read.width, False, shared)


def ordered_params(kernel: Kernel) -> list[tuple[str, Param]]:
    """Parameters in the order of `struct P`: long vectors first, so that nothing needs padding."""
    return sorted(kernel.params.items(), key=lambda item: -len(item[1]) if isinstance(item[1], tuple) else 0)


def generate(key: ShaderKey) -> str:
    """The complete WGSL source of a key."""
    parts = [read_body(name) for name in _files(key)]
    text = "\n".join([*parts, *(function.expression for _, function in key.functions)])
    parts.extend(_declarations(key, text))
    return "\n".join(parts) + "\n"


def _files(key: ShaderKey) -> list[str]:
    """The body and the lib/ files that it and the kernel name, in the order of the source."""
    rounded = any(b.stored and b.dtype is HALF for b in key.bindings)
    wide = any(b.dtype is DType.INT64 for b in key.bindings)
    implied = (("half",) if rounded else ()) + (("wide",) if wide else ())
    named = " ".join(("//!use", *key.libraries, *implied))
    return [key.body, *(f"lib/{name}" for name in _libraries(f"{read_body(key.body)}\n{named}"))]


def _libraries(text: str) -> list[str]:
    """The lib/ files that a text names, and those that they name."""
    found: list[str] = []
    pending = [text]
    while pending:
        for line in _USES.findall(pending.pop()):
            for name in line.split():
                if name not in found:
                    found.append(name)
                    pending.append(read_body(f"lib/{name}"))
    return found


def _declarations(key: ShaderKey, text: str) -> Iterator[str]:
    result = next(element_type(b.dtype) for b in key.bindings if b.stored and b.dtype is not None)
    yield f"alias T = {result};"
    yield f"alias V = {vector_type(result) if key.lanes == 4 else 'T'};"
    if "splatv(" in text:
        yield f"fn splatv(x: T) -> V {{ return {'V(x, x, x, x)' if key.lanes == 4 else 'x'}; }}"
    if "integer(" in text:
        yield f"fn integer(x: i32) -> T {{ return {'wide' if result == 'Wide' else 'T'}(x); }}"
    for axis, size in zip("XYZ", key.workgroup, strict=True):
        yield f"const W{axis}: u32 = {size}u;"
    for name, value in key.constants:
        yield f"const {name}: u32 = {value}u;"
    slot = 0
    for binding in key.bindings:
        if binding.dtype is not None:
            yield from _variable(binding, slot, key.lanes, text)
            slot += 1
        yield from _accessors(binding, result, key.lanes, text)
    if key.params:
        fields = ", ".join(f"{name}: {kind}" for name, kind in key.params)
        yield f"struct P {{ {fields} }}"
        yield f"@group(0) @binding({slot}) var<uniform> p: P;"
    functions = {"apply": Function(("x",), "x"), **dict(key.functions)}
    elements = {b.name: element_type(b.dtype) for b in key.bindings if b.dtype is not None}
    for name, function in functions.items():
        kinds = [elements.get(of, result) for of in function.of or ("",) * len(function.params)]
        yield from _function(name, function, (*kinds, result), key.lanes, text)


def element_type(dtype: DType) -> str:
    """The WGSL type that an element of a dtype is computed in."""
    return "f32" if dtype is HALF else WORD_TYPES.get(dtype, "i32")


def vector_type(element: str) -> str:
    """The WGSL type of four elements; vectors hold nothing but numbers."""
    return f"array<{element}, 4>" if element == "Wide" else f"vec4<{element}>"


def _by_parts(binding: Binding, lanes: int, text: str) -> bool:
    """Whether the text stores single elements of words, which other invocations may share."""
    single = f"store_{binding.name}(" in text or (lanes == 1 and f"storev_{binding.name}(" in text)
    return binding.stored and binding.dtype not in WORD_TYPES and single


def _variable(binding: Binding, slot: int, lanes: int, text: str) -> Iterator[str]:
    assert binding.dtype is not None
    if _by_parts(binding, lanes, text):
        element = "atomic<u32>"
    elif binding.dtype in PACKED_TYPES:
        element = "u32"
    elif binding.dtype in PAIRED_TYPES:
        element = "vec2<u32>" if binding.fours else "u32"
    else:
        element = WORD_TYPES[binding.dtype]
        element = vector_type(element) if binding.fours else element
    access = "read_write" if binding.shared else "read"
    yield f"@group(0) @binding({slot}) var<storage, {access}> {binding.name}_data: array<{element}>;"


def _accessors(binding: Binding, result: str, lanes: int, text: str) -> Iterator[str]:
    """load_, load4_, loadv_, splat_, int_, word_ (or store_...) of one operand: those that the text calls."""
    if binding.stored:
        one, four = _stores(binding, _by_parts(binding, lanes, text))
        forms = {
            "store": ("T", one),
            "store4": (vector_type(result), four),
            "storev": ("V", four if lanes == 4 else one),
        }
        for verb, (kind, statement) in forms.items():
            if f"{verb}_{binding.name}(" in text:
                yield f"fn {verb}_{binding.name}(i: u32, v: {kind}) {{ {statement} }}"
        return
    scalar = result if binding.dtype is None else element_type(binding.dtype)
    vector = vector_type(scalar)
    one, four = _loads(binding, scalar)
    same = f"{vector}({', '.join([one] * 4 if scalar == 'Wide' else [one])})"
    results = {
        "load": (scalar, one),
        "load4": (vector, four),
        "loadv": (vector, four) if lanes == 4 else (scalar, one),
        "splat": (vector, same) if lanes == 4 else (scalar, one),
        "int": ("i32", f"narrow({one})" if scalar == "Wide" else f"i32({one})"),
        "word": ("u32", f"{binding.name}_data[i]"),
    }
    for alias, kind in ((f"T_{binding.name}", scalar), (f"V_{binding.name}", results["loadv"][0])):
        if alias in text:
            yield f"alias {alias} = {kind};"
    for verb, (result, expression) in results.items():
        if f"{verb}_{binding.name}(" in text:
            yield f"fn {verb}_{binding.name}(i: u32) -> {result} {{ return {expression}; }}"


def _loads(binding: Binding, scalar: str) -> tuple[str, str]:
    """Expressions for element i, and for the four elements from 4 i on; `scalar`: an element's type."""
    data = f"{binding.name}_data"
    if binding.dtype is None:
        return f"{scalar}()", f"{vector_type(scalar)}()"
    if binding.dtype in PACKED_TYPES:
        letter, kind = PACKED_TYPES[binding.dtype]
        one = f"i32(extractBits(bitcast<{kind}>({data}[i >> 2u]), (i & 3u) * 8u, 8u))"
        return one, f"vec4<i32>(unpack4x{letter}8({data}[i]))"
    if binding.dtype in PAIRED_TYPES:
        pair = PAIRED_TYPES[binding.dtype]
        word, a, b = f"{data}[i >> 1u]", f"{data}[2u * i]", f"{data}[2u * i + 1u]"
        if binding.fours:
            word, a, b = f"{data}[i >> 2u][(i >> 1u) & 1u]", f"{data}[i].x", f"{data}[i].y"
        return pair.one.format(word=word, shift="(i & 1u) * 16u"), pair.four.format(a=a, b=b)
    if binding.fours:
        return f"{data}[i >> 2u][i & 3u]", f"{data}[i]"
    return f"{data}[i]", f"{vector_type(scalar)}({', '.join(f'{data}[4u * i + {k}u]' for k in range(4))})"


def _stores(binding: Binding, by_parts: bool) -> tuple[str, str]:
    """Statements that store v as element i, and as the four elements from 4 i on."""
    data = f"{binding.name}_data"
    if binding.dtype in PACKED_TYPES:
        word = "pack4xU8(vec4<u32>(v))"
        if by_parts:
            return _into_word(data, 4, "u32(v)"), f"atomicStore(&{data}[i], {word});"
        return "", f"{data}[i] = {word};"
    if binding.dtype in PAIRED_TYPES:
        return _pair_stores(data, PAIRED_TYPES[binding.dtype], binding.width, by_parts)
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
    """Statements that store the low bits of a number as element i, of which `parts` share a word."""
    width = 32 // parts
    mask, word = f"0x{(1 << width) - 1:x}u", f"&{data}[i / {parts}u]"
    shift = f"let s = (i % {parts}u) * {width}u;"
    return f"{shift} atomicAnd({word}, ~({mask} << s)); atomicOr({word}, (({bits}) & {mask}) << s);"


def _function(name: str, function: Function, kinds: tuple[str, ...], lanes: int, text: str) -> Iterator[str]:
    """A generated function and, where called, its forms over four elements and V, component by component.

    `kinds`: the types of the parameters, then of the result.
    """

    def form(suffix: str, wrap: Callable[[str], str], result: str) -> str:
        *kinds_in, kind = map(wrap, kinds)
        params = ", ".join(f"{q}: {k}" for q, k in zip(function.params, kinds_in, strict=True))
        return f"fn {name}{suffix}({params}) -> {kind} {{ return {result}; }}"

    if not re.search(rf"\b{name}[4v]?\(", text):
        return
    yield form("", str, function.expression)
    if f"{name}4(" in text or (f"{name}v(" in text and lanes == 4):
        calls = (f"{name}({', '.join(f'{q}[{k}]' for q in function.params)})" for k in range(4))
        yield form("4", vector_type, f"{vector_type(kinds[-1])}({', '.join(calls)})")
    if f"{name}v(" in text:
        same = f"{name}{'4' if lanes == 4 else ''}({', '.join(function.params)})"
        yield form("v", vector_type if lanes == 4 else str, same)


def compile_error(key: ShaderKey, source: str, message: str) -> DeviceError:
    """A DeviceError that names the shader file's own line for a compiler message."""
    complaint = next((line.strip() for line in message.splitlines() if "error:" in line), "")
    complaint = complaint.partition("error:")[2].strip() or " ".join(message.split())[:300]
    place = re.search(r"wgsl:(\d+):(\d+)", message)
    if place is None:
        return DeviceError(f"shaders/{key.body}.wgsl was rejected: {complaint}")
    line, column = int(place.group(1)), int(place.group(2))
    name, local = _locate(key, line)
    quoted = source.splitlines()[line - 1].strip() if line <= source.count("\n") else ""
    return DeviceError(f"{name}:{local}:{column}: {complaint}: {quoted}")


def _locate(key: ShaderKey, line: int) -> tuple[str, int]:
    """File and own line number of a line of the generated source."""
    for name in _files(key):
        length = read_body(name).count("\n") + 1
        if line <= length:
            return f"shaders/{name}.wgsl", line
        line -= length
    return f"declarations generated for shaders/{key.body}.wgsl", line
