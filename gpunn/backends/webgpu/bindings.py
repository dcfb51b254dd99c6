"""Operands as shaders see them: how their elements lie on the device, and the declarations of their buffers.

shaders/README.md describes them for authors of shaders.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpunn.backends.webgpu.textures import TEXELS, WORDS, Texels
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
    tensor as the other. `texels`: a constant in a texture, where there are texels for its type; `looked_up`:
    also for one of single words.
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
    texels: bool = False
    looked_up: bool = False

    @property
    def data(self) -> str:
        """Return the variable of its elements."""
        return f"{self.within or self.name}_data"

    @property
    def texture(self) -> Texels | None:
        """Return the kind of its texels; None: it lies in a buffer."""
        if not self.texels:
            return None
        return TEXELS.get(self.element) or (WORDS.get(self.element) if self.looked_up else None)

    @property
    def element(self) -> str:
        """Return the WGSL type of what its buffer is an array of, as long as nothing else is said."""
        assert self.dtype is not None
        if self.dtype in PACKED_TYPES:
            return "u32"
        if self.dtype in PAIRED_TYPES:
            return "vec2<u32>" if self.fours else "u32"
        return vector_type(WORD_TYPES[self.dtype]) if self.fours else WORD_TYPES[self.dtype]

    @property
    def kind(self) -> str:
        """Return the type of its buffer, or of what a texture is sampled for, as WebGPU spells it."""
        if self.texture:
            return self.texture.sampled
        return "storage" if self.shared else "read-only-storage"

    @property
    def fours(self) -> bool:
        """Tell whether it is bound as vec4."""
        return self.width == 4 and self.dtype not in DOUBLE_TYPES


def has_wide_words(binding: Binding) -> bool:
    """Tell whether four elements of an operand in a buffer can be two words of 64 bits."""
    return binding.fours and binding.dtype in WORD_TYPES and not binding.texture


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


def by_parts(binding: Binding, lanes: int, names: frozenset[str]) -> bool:
    """Tell whether the code stores single elements of words, which other invocations may share."""
    return binding.stored and binding.dtype not in WORD_TYPES and 1 in stores_by(binding, lanes, names)


def in_buffers(binding: Binding, names: frozenset[str]) -> list[tuple[Binding, frozenset[str]]]:
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
        for k, (segment, own) in enumerate(in_buffers(binding, names)):
            yield from variables(segment, slot + k, lanes, own)
        return
    if binding.texture:
        yield f"@group(0) @binding({slot}) var {binding.data}: texture_2d<{binding.texture.element}>;"
        return
    element = binding.element
    if by_parts(binding, lanes, names):
        element = "atomic<u32>"
    elif is_wide(binding, lanes, names):
        element = "vec2<u64>"
    access = "read_write" if binding.shared else "read"
    yield f"@group(0) @binding({slot}) var<storage, {access}> {binding.data}: array<{element}>;"
