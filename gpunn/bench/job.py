"""The job of a worker process, and the arrays that it reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpunn.types import Array


@dataclass(frozen=True, slots=True)
class Job:
    """A task for a worker: a library, a model and its inputs; all fields can be sent as JSON.

    peer: a name of gpunn.bench.peers.PEERS. inputs, answers: .npz files of arrays in the model's layout.
    shapes: of the inputs in order, if they differ from the file's. outputs: dtype and shape of each.
    preference: a name of gpunn.Preference. onnx: a file of the same model, only for onnxruntime and PyTorch;
    channels_first: it has been written for it, so tensors of rank 4 have the axes [N, C, H, W]. The ncnn_
    fields are empty for other peers.
    """

    peer: str
    model: str
    inputs: str
    answers: str
    threads: int
    outputs: Sequence[tuple[str, Sequence[int]]]
    shapes: Sequence[Sequence[int]] = ()
    preference: str | None = None
    device: str | None = None
    onnx: str = ""
    channels_first: bool = False
    ncnn_param: str = ""
    ncnn_weights: str = ""
    ncnn_inputs: Sequence[str] = ()
    ncnn_outputs: Sequence[str] = ()


def save(path: str | Path, arrays: Sequence[Array]) -> None:
    """Write arrays to a .npz file, named by their numbers."""
    np.savez(path, allow_pickle=False, **{str(i): array for i, array in enumerate(arrays)})


def read(path: str | Path) -> list[Array]:
    """Read arrays that save() has written."""
    with np.load(path) as stored:
        return [stored[str(i)] for i in range(len(stored.files))]
