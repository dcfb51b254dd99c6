"""What the readers of a file's subgraphs share: the file, what has been found, and how much was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from gpunn.custom import CustomOperator
from gpunn.errors import UnsupportedError
from gpunn.importers.tflite_file import FileGraph, TfliteFile
from gpunn.importers.tflite_refusals import Refusals
from gpunn.operation import Operand

MAX_DEPTH = 16  # of subgraphs that call one another
MAX_KNOWN_BYTES = 64 << 20  # of constants that unfold, by a rule or as they are stored, from a small file
MAX_UNFOLDED = 32  # times the size of a file that they may be
MAX_REPEATED = 1 << 14  # operators and their operands that are read again, as their subgraph is called again


@dataclass(slots=True)
class Work:
    """The state of reading one file. `as_stored`: tensors have the shapes that the file says.

    `constants` and `variables` are operands by subgraph and tensor, `states` what variables hold by now,
    `known` counts the bytes of constants that unfolded, `repeated` what was read of subgraphs that had
    been read before, which are in `begun`.
    """

    file: TfliteFile
    custom: Mapping[str, CustomOperator]
    as_stored: bool = True
    unsupported: Refusals = field(init=False)
    constants: dict[tuple[int, int], Operand] = field(default_factory=dict)
    variables: dict[tuple[int, int], Operand] = field(default_factory=dict)
    states: dict[tuple[int, int], Operand] = field(default_factory=dict)
    known: int = 0
    begun: set[int] = field(default_factory=set)
    repeated: int = 0

    def __post_init__(self) -> None:
        self.unsupported = Refusals(self.file.name)

    def enter(self, index: int, path: Sequence[int]) -> FileGraph:
        """A subgraph that subgraphs `path` call, each the next; FormatError when that has no end."""
        if index in path:
            self.file.fail(f"subgraph {index} calls itself, by way of {list(path)}")
        if len(path) == MAX_DEPTH:
            self.file.fail(f"subgraphs call one another {len(path)} deep, at most {MAX_DEPTH - 1} are read")
        return self.file.graph(index)

    def begin(self, graph: FileGraph) -> bool:
        """Whether a subgraph has been read before; then it counts."""
        again = graph.index in self.begun
        self.begun.add(graph.index)
        if again:
            self.count(len(graph.inputs) + len(graph.outputs))
        return again

    def count(self, entries: int) -> None:
        """Count entries of subgraphs as read again; FormatError when a small file asks for too many."""
        self.repeated += entries
        if self.repeated > MAX_REPEATED:
            self.file.fail(f"calls its subgraphs too often, {self.repeated} entries of them are read again")

    def unfold(self, nbytes: int, what: str) -> None:
        """Refuse the whole file when its constants unfold to too much: the next one would cost as much."""
        self.known += nbytes
        most = max(MAX_KNOWN_BYTES, MAX_UNFOLDED * len(self.file.data))
        if self.known > most:
            self.unsupported.add(f"{what}: constants unfold to {self.known} bytes, at most {most} are kept")
            self.fail_unsupported()

    def fail_unsupported(self) -> NoReturn:
        """Raise UnsupportedError with all that has been noted."""
        raise UnsupportedError(self.unsupported.message())
