"""Kernel + shaders/*.wgsl -> WGSL source; the compiler's complaints mapped back to file and line.

The body comes first and unchanged, so the compiler's line numbers are those of the file. The libraries and
the declarations of all names that the body leaves open are appended: aliases, constants, `struct P`,
bindings, accessors of operands, generated functions. shaders/README.md is the contract of a body.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import NamedTuple, Protocol

from gpunn.backends.webgpu.accessors import accessors
from gpunn.backends.webgpu.appended import chain
from gpunn.backends.webgpu.bindings import (
    HALF,
    PACKED_TYPES,
    PAIRED_TYPES,
    Binding,
    element_type,
    has_wide_words,
    is_wide,
    variables,
    vector_type,
)
from gpunn.backends.webgpu.params import literals, ordered_params, param_type
from gpunn.backends.webgpu.prepended import rows
from gpunn.backends.webgpu.textures import MOST_BYTES, MOST_TEXTURES
from gpunn.backends.webgpu.wgsl import identifiers, used_libraries
from gpunn.errors import DeviceError
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Function, Kernel, Read, Scratch, Write
from gpunn.planning.places import bound_width
from gpunn.rows import Rows, Walk
from gpunn.types import DType

SUFFIX = ".wgsl"
# Times the bytes of a constant that it has at most where it is packed and does not say how many: a byte may
# become a word for each channel of a block.
_MOST_PACKED = 128
_WITHOUT_SHIFTS = "bytes_by_reals"  # in shaders/lib, in the place of "bytes"


class ShaderKey(NamedTuple):
    """All that makes one pipeline differ from another; sizes and numbers (`p`) are not part of it.

    `inlined`: the numbers nevertheless, as WGSL, where the shader has them and no buffer.
    """

    body: str
    workgroup: tuple[int, int, int]
    bindings: tuple[Binding, ...]
    params: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, int], ...]
    functions: tuple[tuple[str, Function], ...]
    libraries: tuple[str, ...]
    lanes: int
    accumulator: DType | None
    generated: str = ""
    halves: bool = False
    inlined: tuple[str, ...] = ()

    @property
    def bound_params(self) -> bool:
        """Tell whether numbers come from a buffer, the last binding."""
        return bool(self.params) and not self.inlined

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kind of each buffer or texture that the pipeline binds, as WebGPU spells it."""
        own = (b for b in self.bindings if b.dtype and not b.within)
        kinds = [b.kind for b in own for _ in range(b.segments.count if b.segments else 1)]
        return (*kinds, "uniform") if self.bound_params else tuple(kinds)


class _Folder(Protocol):
    def joinpath(self, name: str, /) -> _Folder: ...
    def is_dir(self) -> bool: ...
    def read_text(self, encoding: str) -> str: ...


@functools.cache
def shader_folder() -> _Folder:
    """Find gpunn/shaders of an installed package, or shaders/ beside gpunn/ in a source checkout."""
    installed: _Folder = resources.files("gpunn").joinpath("shaders")
    if installed.is_dir():
        return installed
    return Path(__file__).resolve().parents[3] / "shaders"


@functools.cache
def read_body(name: str) -> str:
    """Return the text of shaders/<name>.wgsl, or of the file at a path with that suffix (see Kernel.body)."""
    if not name.endswith(SUFFIX):
        return shader_folder().joinpath(f"{name}{SUFFIX}").read_text(encoding="utf-8")
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise DeviceError(f"{name}: the shader cannot be read: {error.strerror}") from None


def file_of(name: str) -> str:
    """Return the file of a body or library, for messages."""
    return name if name.endswith(SUFFIX) else f"shaders/{name}{SUFFIX}"


def key_of(
    kernel: Kernel, operation: Operation, apart: bool = False, within: Mapping[str, str] | None = None
) -> ShaderKey:
    """Collect what the pipeline of a kernel of an operation depends on.

    apart: no buffer that it reads is one that it writes. within: for the names of what it reads in a tensor
    that it writes, too, the names of these results.
    """
    found = (_read_binding(r, source(r, operation), apart) for r in kernel.reads)
    if kernel.texels:
        known = [r.name for r in kernel.reads if _fits_texture(r, operation)][:MOST_TEXTURES]
        found = (b._replace(texels=b.name in known) for b in found)
    reads = (b._replace(within=within.get(b.name, "")) for b in found) if within else found
    writes = (_write_binding(w, target(w, operation)) for w in kernel.writes)
    bindings = (*reads, *writes)
    if kernel.wide_words:
        bindings = tuple(b._replace(wide=b.name != kernel.narrow and has_wide_words(b)) for b in bindings)
    packed = any(b.dtype in PACKED_TYPES for b in bindings)
    return ShaderKey(
        body=kernel.body,
        workgroup=kernel.workgroup,
        bindings=bindings,
        params=tuple((name, param_type(value)) for name, value in ordered_params(kernel)),
        constants=tuple(sorted(kernel.constants.items())),
        functions=tuple(sorted(kernel.functions.items())),
        libraries=(*kernel.libraries, *[_WITHOUT_SHIFTS] * (packed and kernel.without_shifts)),
        lanes=kernel.lanes,
        accumulator=kernel.accumulator,
        generated=kernel.generated,
        halves=kernel.halves,
        inlined=literals(kernel, packed) if kernel.inlined else (),
    )


def source(read: Read, operation: Operation) -> Operand | Scratch | None:
    """Return what a kernel of an operation reads; None if it is absent, or a table of the kernel's own."""
    found = operation.inputs[read.operand] if isinstance(read.operand, int) else read.operand
    assert found is None or isinstance(found, (Operand, Scratch))
    return found


def target(write: Write, operation: Operation) -> Operand | Scratch:
    """Return what a kernel of an operation writes."""
    return operation.outputs[write.output] if isinstance(write.output, int) else write.output


def _read_binding(read: Read, tensor: Operand | Scratch | None, apart: bool) -> Binding:
    if read.value is not None:
        dtype = DType.of(read.value.dtype)
        return Binding(read.name, dtype, read.width, False, False, looked_up=read.looked_up)
    if tensor is None:
        return Binding(read.name, None, read.width, False, False)
    shared = not apart and (isinstance(tensor, Scratch) or tensor.value is None)
    dtype = read.dtype or tensor.type.dtype
    found = None if read.pitch is not None else read.rows
    place = (bound_width(read), False, shared, read.segments, *_rows(found))
    return Binding(read.name, dtype, *place, prepended=read.prepended, by_elements=read.by_elements)


def _fits_texture(read: Read, operation: Operation) -> bool:
    """Tell whether a kernel of an operation reads all of a constant that a texture has room for."""
    tensor = source(read, operation)
    value = tensor.value if isinstance(tensor, Operand) else read.value
    if value is None or read.segments is not None or read.window is not None:
        return False
    nbytes = read.nbytes or value.nbytes * (1 if read.pack is None else _MOST_PACKED)
    return nbytes <= MOST_BYTES


def _write_binding(write: Write, tensor: Operand | Scratch) -> Binding:
    computed = tensor.type.dtype
    dtype = write.appended[-1].dtype if write.appended else computed
    place = (bound_width(write), True, True, write.segments, *_rows(write.rows))
    final = (write.appended, write.optional, computed if write.appended else None)
    return Binding(write.name, dtype, *place, *final, in_loop=write.in_loop and write.optional)


def _rows(rows: Rows | Walk | None) -> tuple[int, int]:
    """Return how accessors find elements in rows: Binding.rows and Binding.levels."""
    return (0, 0) if rows is None else (rows.unit, len(rows.levels()))


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive lines of a generated source that come from one file."""

    file: str  # shaders/<name>.wgsl; "" for generated declarations
    first: int  # its first line in the source, from 1 on
    text: str

    @property
    def lines(self) -> int:
        """Count its lines."""
        return self.text.count("\n") + 1


def parts(key: ShaderKey) -> tuple[Part, ...]:
    """Compose the source of a key: the body, the libraries that it needs, the generated declarations."""
    files = {file_of(name): read_body(name) for name in _files(key)}
    expressions = (function.expression for _, function in key.functions)
    texts = (*files.values(), *expressions, key.generated)
    names = frozenset[str]().union(*map(identifiers, texts))
    names |= {name.replace("stores_", "store_", 1) for name in names if name.startswith("stores_")}
    made = [line for b in key.bindings if b.appended for line in chain(b, key.lanes, names)]
    made += (line for b in key.bindings for line in rows(b, computed_type(key), names))
    declarations = _declarations(key, names.union(*map(identifiers, made)))
    found: list[Part] = []
    line = 1
    for file, text in (*files.items(), ("", "\n".join((*declarations, *made, key.generated)))):
        found.append(Part(file, line, text))
        line += found[-1].lines
    return tuple(found)


def generate(key: ShaderKey) -> str:
    """Return the complete WGSL source of a key."""
    enabled = "enable f16; " if key.halves else ""  # in the first line: all keep their numbers
    return enabled + "\n".join(part.text for part in parts(key))


def _files(key: ShaderKey) -> list[str]:
    """List the body and the lib/ files that it and the kernel name, in the order of the source."""
    rounded = any(HALF in _rounded(b) for b in key.bindings)
    dtypes = (key.accumulator, *(b.dtype for b in key.bindings))
    doubles = {DType.INT64: "int64", DType.COMPLEX64: "complex"}
    rows = any(b.rows for b in key.bindings)
    packed = any(b.dtype in PACKED_TYPES for b in key.bindings) and _WITHOUT_SHIFTS not in key.libraries
    paired = any(b.dtype in PAIRED_TYPES for b in key.bindings if not b.stored)
    wide = any(b.wide for b in key.bindings)
    conditions = {"half": rounded, "pairs": paired, "in_rows": rows, "bytes": packed, "wide_words": wide}
    conditions |= {name: d in dtypes for d, name in doubles.items()}
    implied = (name for name, needed in conditions.items() if needed)
    named = (*used_libraries(read_body(key.body)), *key.libraries, *implied)
    return [key.body, *(f"lib/{name}" for name in with_dependencies(named))]


def _rounded(binding: Binding) -> set[DType | None]:
    """Return the dtypes in which stores, and operations on the way, leave numbers of an operand."""
    inner = {operation.dtype for operation in (*binding.appended, *binding.prepended)}
    return inner | ({binding.dtype, binding.computed} if binding.stored else set())


def with_dependencies(libraries: Iterable[str]) -> list[str]:
    """List libraries and those that they use, each once."""
    found: list[str] = []
    pending = [*libraries]
    while pending:
        name = pending.pop(0)
        if name not in found:
            found.append(name)
            pending += used_libraries(read_body(f"lib/{name}"))
    return found


def computed_type(key: ShaderKey) -> str:
    """Return the WGSL type T: that in which a body computes elements of its first result."""
    stored = (b.computed or b.dtype for b in key.bindings if b.stored)
    return next(element_type(dtype) for dtype in stored if dtype is not None)


def _declarations(key: ShaderKey, names: frozenset[str]) -> Iterator[str]:
    result = computed_type(key)
    yield f"alias T = {result};"
    yield f"alias V = {vector_type(result) if key.lanes == 4 else 'T'};"
    if "splatv" in names:
        yield f"fn splatv(x: T) -> V {{ return {'V(x, x, x, x)' if key.lanes == 4 else 'x'}; }}"
    if "integer" in names:
        yield f"fn integer(x: i32) -> T {{ return {'i64_from_i32' if result == 'I64' else 'T'}(x); }}"
    for axis, size in zip("XYZ", key.workgroup, strict=True):
        yield f"const W{axis}: u32 = {size}u;"
    for name, value in key.constants:
        yield f"const {name}: u32 = {value}u;"
    slot, stored = 0, {b.name: b for b in key.bindings if b.stored}
    for binding in key.bindings:
        if binding.within:
            binding = binding._replace(wide=is_wide(stored[binding.within], key.lanes, names))
        declared = [*variables(binding, slot, key.lanes, names)]
        slot += len(declared)
        yield from declared
        yield from accessors(binding, result, key.lanes, names)
    if key.params:
        fields = ", ".join(f"{name}: {kind}" for name, kind in key.params)
        yield f"struct P {{ {fields} }}"
        bound, made = f"@group(0) @binding({slot}) var<uniform> p: P;", ", ".join(key.inlined)
        yield bound if key.bound_params else f"var<private> p: P = P({made});"
    functions = {"apply": Function(("x",), "x"), **dict(key.functions)}
    elements = {b.name: element_type(b.computed or b.dtype) for b in key.bindings if b.dtype is not None}
    if key.accumulator is not None:
        elements["acc"] = element_type(key.accumulator)
    if "V_acc" in names:
        element = elements.get("acc", result)
        yield f"alias V_acc = {vector_type(element) if key.lanes == 4 else element};"
    for name, function in functions.items():
        of = (*(function.of or ("",) * len(function.params)), function.gives)
        yield from _function(name, function, tuple(elements.get(o, result) for o in of), key.lanes, names)


def _function(
    name: str, function: Function, kinds: tuple[str, ...], lanes: int, names: frozenset[str]
) -> Iterator[str]:
    """Write a generated function and, if called, its forms over four elements and V, component by component.

    `kinds`: the types of the parameters, then of the result.
    """

    def form(suffix: str, wrap: Callable[[str], str], result: str) -> str:
        *kinds_in, kind = map(wrap, kinds)
        params = ", ".join(f"{q}: {k}" for q, k in zip(function.params, kinds_in, strict=True))
        return f"fn {name}{suffix}({params}) -> {kind} {{ return {result}; }}"

    if names.isdisjoint((name, f"{name}4", f"{name}v")):
        return
    yield form("", str, function.expression)
    if f"{name}4" in names or (f"{name}v" in names and lanes == 4):
        calls = (f"{name}({', '.join(f'{q}[{k}]' for q in function.params)})" for k in range(4))
        yield form("4", vector_type, f"{vector_type(kinds[-1])}({', '.join(calls)})")
    if f"{name}v" in names:
        same = f"{name}{'4' if lanes == 4 else ''}({', '.join(function.params)})"
        yield form("v", vector_type if lanes == 4 else str, same)


def compile_error(key: ShaderKey, source: str, message: str) -> DeviceError:
    """Make a DeviceError that names the shader file's own line for a compiler message."""
    complaint = next((line.strip() for line in message.splitlines() if "error:" in line), "")
    complaint = complaint.partition("error:")[2].strip() or " ".join(message.split())[:300]
    place = re.search(r"wgsl:(\d+):(\d+)", message)
    if place is None:
        return DeviceError(f"{file_of(key.body)} was rejected: {complaint}")
    line, column = int(place.group(1)), int(place.group(2))
    quoted = source.splitlines()[line - 1].strip() if line <= source.count("\n") else ""
    part = next(part for part in reversed(parts(key)) if part.first <= line)
    name = part.file or f"declarations generated for {file_of(key.body)}"
    return DeviceError(f"{name}:{line - part.first + 1}:{column}: {complaint}: {quoted}")
