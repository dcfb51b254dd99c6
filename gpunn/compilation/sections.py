"""Sections: a model with pending operations in pieces, each planned when values have completed it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.backends.interrupt import check
from gpunn.compilation.lending_cache import LendingCache
from gpunn.errors import OutOfMemoryError
from gpunn.graph.complete import Cut, cut, run_on_host, without_state
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.graph.structure import structure
from gpunn.types import Array

MAX_SECTIONS = 64  # that are kept, so that their graphs need not be completed again

# The way to a section: the shapes of a model's inputs, then for each section shapes and digests of values.
Path = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A piece of a model that can be planned: a graph as far as types are known.

    `graph` can run at once; `cut` says what follows, where values decide on that.
    """

    graph: Graph
    cut: Cut | None = None

    @classmethod
    def of(cls, graph: Graph) -> Section:
        """Return the first section of a graph that may have pending operations."""
        if not graph.pending:
            return cls(graph)
        found = cut(without_state(graph))
        return cls(found.front, found)

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Return what the host runs after the graph."""
        return () if self.cut is None else self.cut.operations

    def key(self) -> Hashable:
        """Return what decides on the program: sections with equal keys share one."""
        found = structure(self.graph, self.operations)
        return found if self.cut is None else (found, self.cut.asked, len(self.cut.following.inputs))


def _digest(value: Array) -> Hashable:
    found = np.asarray(value)
    if found.dtype.hasobject:
        return tuple(found.reshape(-1).tolist())
    return hashlib.blake2b(np.ascontiguousarray(found).data, digest_size=16).digest() if found.size else b""


# A section, what decides on its program, and the inputs whose values must be known before it has one.
_Found = tuple[Section, Hashable, tuple[int, ...]]


class Sections:
    """A cache of sections that values led to, the last used ones."""

    def __init__(self) -> None:
        self._kept: LendingCache[Path, _Found] = LendingCache(MAX_SECTIONS, lambda found: None)

    def follow(self, path: Path, cut: Cut, inputs: Sequence[Array]) -> tuple[Path, Hashable, Section]:
        """Return the section that follows a cut on these inputs, with what leads to it and its key.

        `path` leads to the section that is cut. Raises ModelError where values fit no operation.
        """
        path = (*path, tuple(x.shape for x in inputs))
        numbers: tuple[int, ...] = ()
        wanted = cut.asked

        def make() -> _Found:
            graph, asked = cut.follow(inputs, numbers)
            section = Section.of(graph)
            return section, () if asked else section.key(), asked

        while True:
            numbers = (*numbers, *wanted)
            path = (*path, tuple(_digest(inputs[k]) for k in wanted))
            with self._kept.lend(path, make) as (section, key, wanted):
                if not wanted:
                    return path, key, section

    def close(self) -> None:
        """Keep nothing any more."""
        self._kept.close()


def run_operations(
    cut: Cut, operations: Sequence[Operation], outputs: Sequence[Array]
) -> tuple[tuple[Array, ...], list[tuple[float, float]]]:
    """Run what the host runs at a cut; return the inputs of what follows, and when each began and ended."""
    times: list[tuple[float, float]] = []

    def run(operation: Operation, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        check()
        began = time.perf_counter()
        try:
            return run_on_host(operation, inputs)
        except MemoryError as error:
            raise OutOfMemoryError(f"out of memory: {operation.origin}: {error}") from error
        finally:
            times.append((began, time.perf_counter()))

    return cut.run_operations(operations, outputs, run), times
