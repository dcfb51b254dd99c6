"""Custom operators of users: CustomOperator, and everything for the declaration of an op.

    @op(like)
    def sinh(x, *, gain=1.0):
        return gain * np.sinh(x)

    model = gpunn.load("model.tflite", custom={"Sinh": CustomOperator(sinh)})

`op` makes an Op from a numpy function: its positional parameters are the operands, the keyword-only ones the
attributes. `op` needs a rule that gives the types of the results (here `like`: the first input's type). It
also takes a function that returns a Kernel, whose body is a file of shaders/ or a .wgsl file of your own, or
that yields Candidates for different devices. Instead of a kernel, `expand=` takes a function that writes the
op in gpunn's ops, with an Expansion. Without both the op runs on the CPU, inside the same plan.
Quantised operands arrive as real numbers, unless the op is `quantized`. `Facets` lists everything that an op
can state, for example its Accuracy, which comparisons use, and its Algebra, which passes use.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flatbuffers import flexbuffers

from gpunn.errors import FormatError
from gpunn.kernel import Candidate, Function, Kernel, Read, Unsupported, Write
from gpunn.ops.accuracy import Accuracy
from gpunn.ops.algebra import Algebra
from gpunn.ops.call import Call, broadcast, like
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.op import Facets, Op, Quantized, op

__all__ = [
    "Accuracy",
    "Algebra",
    "Call",
    "Candidate",
    "CustomOperator",
    "Expansion",
    "Facets",
    "Function",
    "Kernel",
    "Op",
    "Quantized",
    "Read",
    "Tensor",
    "Unsupported",
    "Write",
    "broadcast",
    "flexbuffer_map",
    "like",
    "op",
]

MAX_OPTION_BYTES = 1 << 16
MAX_ENTRIES = 256  # of an options map, and of a list in it
MAX_KEY = 128  # characters of an option's name
Value = bool | int | float | str | tuple[bool | int | float, ...] | None

# The errors of flexbuffers for damaged bytes: it follows any offset that it finds.
_DAMAGE = (struct.error, LookupError, ValueError, TypeError, OverflowError, AssertionError, AttributeError)


def flexbuffer_map(options: bytes) -> dict[str, Value]:
    """Read a custom operator's options as TFLite converters write them: a flexbuffer with a flat map.

    Values are booleans, integers, floats, strings, lists of numbers of one type, or None; no bytes are an
    empty map. Raises FormatError for anything else, for more than MAX_ENTRIES entries, and for names that are
    longer than MAX_KEY or contain control characters.
    """
    if not options:
        return {}
    if len(options) > MAX_OPTION_BYTES:
        raise FormatError(f"{len(options)} bytes of custom options, at most {MAX_OPTION_BYTES} are read")
    try:
        root = flexbuffers.GetRoot(options)
        if not root.IsMap:
            raise FormatError("the custom options are no flexbuffer with a map")
        entries = root.AsMap
        if not len(entries) == len(entries.Keys) <= MAX_ENTRIES:
            raise FormatError(f"the custom options have {len(entries)} entries, expected up to {MAX_ENTRIES}")
        return {_key(k): _value(v) for k, v in zip(entries.Keys, entries.Values, strict=True)}
    except FormatError:
        raise
    except _DAMAGE as error:
        raise FormatError(f"the custom options are no readable flexbuffer ({error})") from None


def _key(entry: Any) -> str:
    """Return the name of an option; raise FormatError for a name that cannot be shown in messages."""
    key: str = entry.AsKey
    if len(key) > MAX_KEY or not key.isprintable():
        raise FormatError(f"an option's name is {key[:MAX_KEY]!r}, which is none")
    return key


def _value(entry: Any) -> Value:
    """Return one value of a map; nested values are refused, so that reading ends after one step."""
    if entry.IsNull:
        return None
    if entry.IsBool or entry.IsInt or entry.IsFloat or entry.IsString:
        found: Value = entry.Value
        return found
    if entry.IsTypedVector or entry.IsFixedTypedVector:
        numbers = entry.AsTypedVector if entry.IsTypedVector else entry.AsFixedTypedVector
        if len(numbers) > MAX_ENTRIES:
            raise FormatError(f"a list in the custom options has {len(numbers)} entries")
        if all(n.IsBool or n.IsInt or n.IsFloat for n in numbers):
            return tuple(n.Value for n in numbers)
    raise FormatError("the custom options hold something else than numbers, strings and lists of numbers")


@dataclass(frozen=True, slots=True)
class CustomOperator:
    """The meaning of a file's custom operator: an op, and the conversion of its options to attributes.

    `attributes` gets the options of an operator in a .tflite file, as bytes. `parameters` gets the parameters
    of a layer in an .mlmodel file, by name. Both are as untrusted as the file. If one of them raises
    ValueError, LookupError or struct.error, load() raises FormatError.
    """

    op: Op
    attributes: Callable[[bytes], Mapping[str, Any]] = flexbuffer_map
    parameters: Callable[[Mapping[str, Value]], Mapping[str, Any]] = dict
