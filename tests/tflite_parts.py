"""The parts of a .tflite file that tests write: tensors, operators, subgraphs (tflite_writer.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpunn.types import TensorType


@dataclass(frozen=True)
class Sparsity:
    """SparsityParameters: a level is a dense size or (segments, indices), in vectors of this bit width."""

    order: Sequence[int]
    blocks: Sequence[int]
    levels: Sequence[int | tuple[Sequence[int], Sequence[int]]]
    width: str = "Int32"


@dataclass(frozen=True)
class Blocks:
    """BlockwiseQuantization: scales and zero points by the numbers of their tensors, and the block size."""

    scales: int
    zeros: int
    size: int


@dataclass(frozen=True)
class Tensor:
    """One tensor, with the arguments of Graph.tensor()."""

    type: TensorType
    name: str | None
    data: bytes | None
    signature: tuple[int, ...] | None
    is_variable: bool
    stored_as: str
    sparsity: Sparsity | None
    blocks: Blocks | None


@dataclass(frozen=True)
class Node:
    """One operator, by the numbers of its tensors."""

    operator: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    custom_options: bytes | None = None
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True)
class Subgraph:
    """A subgraph of the file: its tensors, its operators, and the numbers of its inputs and outputs."""

    tensors: Sequence[Tensor]
    nodes: Sequence[Node]
    inputs: Sequence[int]
    outputs: Sequence[int]
