"""Compilation: a finished model made ready for a backend, once for every form in which it is executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from gpunn.closing import Closing
from gpunn.compilation import base, compiler, preference
from gpunn.compilation.lending_cache import LendingCache
from gpunn.compilation.specialise import MAX_SPECIALISATIONS
from gpunn.errors import GpunnError, NnapiError, ResultCode
from gpunn.graph.structure import Structure, structure
from gpunn.importers.nnapi.codes import PreferenceCode
from gpunn.nnapi.description import Binding
from gpunn.nnapi.model import Model
from gpunn.nnapi.translation import Translation, translate
from gpunn.nnapi.values import bad, expect_code, expect_kind, translated
from gpunn.types import Array, Shape

MAX_TRANSLATIONS = 64  # that are kept, for values that lead to few graphs
Outcome = Callable[[], Array | tuple[Array, ...]]
_Key = tuple[tuple[tuple[Shape, bool], ...], tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A model for certain dimensions, omitted inputs and attribute values, compiled.

    It serves for all translations whose graphs have the same structure.
    """

    translation: Translation
    compiled: base.Compilation


class Compilation(Closing):
    """A model and how to run it (ANeuralNetworksCompilation). Once finished, safe for several threads.

    backend: "auto", "webgpu" or "cpu"; device: part of an adapter's name, as in gpunn.Model.compile(). Raises
    UNEXPECTED_NULL without a model, BAD_STATE for a model that is not finished, BAD_DATA for an invalid one.
    A context manager, which frees device memory at its end, as close() does.
    """

    def __init__(self, model: Model, *, backend: str = "auto", device: str | None = None) -> None:
        expect_kind("the model", model, Model)
        if not model.finished:
            raise NnapiError(ResultCode.BAD_STATE, f"model {model.name!r} has not been finished")
        if not isinstance(backend, str) or backend not in compiler.BACKENDS:
            bad(f"backend must be one of {', '.join(compiler.BACKENDS)}, got {backend!r}")
        self.model = model
        self.backend = backend
        self.device = device
        self.preference = PreferenceCode.FAST_SINGLE_ANSWER
        self.finished = False
        self.valid = False
        self.closed = False
        self._translation = model.translation
        self._translations: LendingCache[_Key, Translation] = LendingCache(MAX_TRANSLATIONS, _leave)
        self._kept: LendingCache[Structure, Specialisation] = LendingCache(MAX_SPECIALISATIONS, _close)

    def set_preference(self, preference: PreferenceCode) -> None:
        """Set what to optimise for. Raises BAD_STATE after finish(), BAD_DATA for an unknown preference."""
        self._expect_open("set_preference")
        self.preference = expect_code("the preference", preference, PreferenceCode)

    def finish(self) -> None:
        """Compile the model. May be called once.

        A model that is fully specified is compiled now. One that waits for dimensions, or for inputs that are
        attributes or may be omitted, is compiled by the first execution that brings them. Raises OP_FAILED
        with every operation that cannot be run, or when the device fails; OUT_OF_MEMORY; BAD_STATE after
        close().
        """
        self._expect_open("finish")
        self.finished = True
        if self._translation.refused or not self._translation.deferred:
            binding = Binding(tuple(self.model.operands[k].type for k in self.model.inputs), ())
            key = (tuple((type.dimensions, False) for type in binding.types), ())
            with (
                translated(),
                self._translations.lend(key, lambda: self._translation) as found,
                self._compiled(found),
            ):
                pass  # kept from now on
        self.valid = True

    @property
    def specialisations(self) -> Sequence[Specialisation]:
        """Return the compiled specialisations, the last used last."""
        return self._kept.values()

    def close(self) -> None:
        """Free the device memory. Executions that have been started run to their end, others do not start."""
        self.valid, self.closed = False, True
        self._kept.close()
        self._translations.close()

    def start(self, binding: Binding, check: Callable[[Translation], None]) -> Outcome:
        """Start a run with bound inputs; for Execution.

        `check` sees the graph before: what it raises is raised, unless it is OP_FAILED, which, like any
        failure of the run itself, is raised by the outcome.
        """
        if not self.valid:
            raise NnapiError(ResultCode.BAD_STATE, "the compilation has been closed")
        with ExitStack() as lent:
            with translated():
                translation = lent.enter_context(self._translated(binding))
                found = lent.enter_context(self._compiled(translation))
            try:
                check(translation)
                inputs = [binding.values[position] for position in translation.inputs]
                return found.compiled.submit(*inputs).result
            except (GpunnError, MemoryError) as error:
                if isinstance(error, NnapiError) and error.code is not ResultCode.OP_FAILED:
                    raise
                return partial(_raise, error)

    def _translated(self, binding: Binding) -> AbstractContextManager[Translation]:
        values = tuple(_bytes(binding.values[k]) for k in sorted(self._translation.attributes))
        omitted = [value is None for value in binding.values]
        forms = tuple((t.dimensions, o) for t, o in zip(binding.types, omitted, strict=True))
        return self._translations.lend((forms, values), lambda: translate(self.model.description, binding))

    def _compiled(self, translation: Translation) -> AbstractContextManager[Specialisation]:
        refused = translation.refused
        if refused:
            raise NnapiError(ResultCode.OP_FAILED, "\n".join(refused[k] for k in sorted(refused)))
        return self._kept.lend(structure(translation.graph), lambda: self._compile(translation))

    def _compile(self, translation: Translation) -> Specialisation:
        purpose = preference.Preference(int(self.preference))
        compiled = compiler.compile_model(
            translation.graph, self.backend, purpose, relaxed=self.model.relaxed, device=self.device
        )
        return Specialisation(translation, compiled)

    def _expect_open(self, call: str) -> None:
        if self.finished or self.closed:
            done = "finished" if self.finished else "closed"
            raise NnapiError(ResultCode.BAD_STATE, f"{call}: the compilation has been {done}")


def _leave(translation: Translation) -> None:
    """Do nothing: a translation holds no memory of a device."""


def _close(specialisation: Specialisation) -> None:
    specialisation.compiled.close(finish=True)


def _raise(error: Exception) -> NoReturn:
    raise error


def _bytes(value: Array | None) -> bytes:
    return b"" if value is None else value.tobytes()
