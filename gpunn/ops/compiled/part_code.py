"""The machine code of a part of a loop, and the operands of a call as it reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpunn.ops.compiled.team_code import WORD
from gpunn.ops.compiled.vectors import Code


def part_code(loop: Callable[..., None]) -> Any:
    """Return part_of() as machine code of a loop that gets a part, two numbers, before its operands."""
    from llvmlite import ir
    from numba import extending
    from numba import types as known_types

    library: Any = extending  # parts of both have no annotations
    types: Any = known_types

    def typed(typing: Any, ends: Any, operands: Any) -> Any:
        signature = types.void(types.UniTuple(types.int64, 2), *operands.types)
        kinds = ends, *operands.types
        arrays = [k for k, kind in enumerate(kinds) if isinstance(kind, types.Array)]

        def code(context: Any, builder: Any, _: Any, values: Any) -> Any:
            compiled, word = _linked(context, loop, signature), ir.IntType(64)
            utils = Code(builder, 1).utils
            given = values[0], *utils.unpack_tuple(builder, values[1])
            plain = [_plain(context, builder, *pair) for pair in zip(kinds, given, strict=True)]
            room = utils.alloca_once_value(builder, utils.pack_struct(builder, plain))
            kind = ir.FunctionType(ir.IntType(32), [ir.IntType(8).as_pointer(), word])
            part = ir.Function(builder.module, kind, f"{builder.function.name}.part")
            part.linkage = "internal"
            of = ir.IRBuilder(part.append_basic_block())
            place, number = part.args
            kept, *own = utils.unpack_tuple(of, of.load(of.bitcast(place, room.type)))
            first = of.gep(context.make_array(ends)(context, of, kept).data, [number])
            both = utils.pack_array(of, [of.load(of.gep(first, [word(k)])) for k in range(2)])
            status, _ = context.call_internal_no_propagate(of, compiled.fndesc, signature, [both, *own])
            of.ret(status.code)

            def bytes_before(*indices: int) -> Any:
                places = (word(indices[0]), *map(ir.IntType(32), indices[1:]))
                return builder.ptrtoint(builder.gep(room.type(None), places), word)

            data = [context.data_model_manager[kinds[k]].get_field_position("data") for k in arrays]
            counted = bytes_before(1), *map(bytes_before, [0] * len(arrays), arrays, data)
            words = [builder.udiv(number, word(WORD)) for number in counted]
            addresses = [builder.ptrtoint(address, word) for address in (part, room)]
            return utils.pack_array(builder, [*addresses, *words])

        return types.UniTuple(types.int64, 3 + len(arrays))(ends, operands), code

    return library.intrinsic(typed)


def _plain(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a value of a kind; of an array without those who refer to it, so that nobody counts them."""
    from numba import types as known_types

    if not isinstance(kind, known_types.Array):
        return value
    array = context.make_array(kind)(context, builder, value)
    array.meminfo, array.parent = array.meminfo.type(None), array.parent.type(None)
    return array._getvalue()


def _linked(context: Any, loop: Callable[..., None], signature: Any) -> Any:
    """Compile a loop to be linked with the code that is being compiled; return what numba tells of it.

    It is optimised there. numba would do so before, too, and make machine code of it that nobody calls, for
    which all loops would take half as long again.
    """
    from numba.core import compiler as known_compiler

    compiler: Any = known_compiler
    library = context.codegen().create_library(loop.__name__)

    def leave_as_it_is() -> None:
        library._finalized = True

    if hasattr(library, "_finalized") and hasattr(library, "_optimize_final_module"):
        library._optimize_final_module, library._finalize_final_module = (lambda: None), leave_as_it_is
    flags = compiler.Flags()
    flags.nrt = flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    operands = context.typing_context, context, library, loop, signature.args, signature.return_type
    found = compiler.compile_internal(*operands, flags, {})
    context.active_code_library.add_linking_library(library)
    return found
