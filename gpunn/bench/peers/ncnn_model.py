"""A writer of a gpunn Graph as ncnn's .param and .bin, so that both run the same model with the same weights.

ncnn has no batch axis and stores channels first: [1, H, W, C] becomes c = C, h = H, w = W. A tensor of a
single pixel, [1, 1, 1, C] or [1, C], becomes a vector, as in pnnx (ncnn's converter). So a convolution of one
pixel is an InnerProduct, and pooling over a whole picture is global pooling. A blob has one reader; a Split
layer makes more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpunn.bench.peers.ncnn_builder import Layer, NcnnBuilder
from gpunn.bench.peers.ncnn_layers import RULES
from gpunn.bench.peers.rules import write_operations
from gpunn.graph.graph import Graph
from gpunn.types import Array

_MAGIC = 7767517


@dataclass(frozen=True, slots=True)
class NcnnModel:
    """The files of a written model, and its blobs in the order of the model's inputs and outputs."""

    param: Path
    weights: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def write(model: Graph, folder: Path, stem: str = "model") -> NcnnModel:
    """Write `stem`.param and `stem`.bin into `folder`.

    Raises UnsupportedError for what is not written: a batch other than 1, an operation without a
    rule, attributes that ncnn's layer does not have.
    """
    builder = NcnnBuilder(model)
    write_operations(model, builder, RULES)
    outputs = builder.finish(model)
    layers, outputs = with_splits(builder.layers, outputs)
    blobs = sum(len(layer.outputs) for layer in layers)
    lines = [str(_MAGIC), f"{len(layers)} {blobs}", *(layer.line(i) for i, layer in enumerate(layers))]
    param, weights = folder / f"{stem}.param", folder / f"{stem}.bin"
    param.write_text("\n".join(lines) + "\n")
    weights.write_bytes(b"".join(builder.weights))
    return NcnnModel(param, weights, builder.inputs, outputs)


def with_splits(layers: Sequence[Layer], outputs: Sequence[str]) -> tuple[list[Layer], tuple[str, ...]]:
    """Insert a Split behind each blob that is read more than once; also return the new blobs of the outputs.

    An output counts as a reader.
    """
    readers = Counter(blob for layer in layers for blob in layer.inputs)
    readers.update(outputs)
    taken: Counter[str] = Counter()

    def take(blob: str) -> str:
        taken[blob] += 1
        return f"{blob}_{taken[blob]}" if readers[blob] > 1 else blob

    result: list[Layer] = []
    for layer in layers:
        result.append(replace(layer, inputs=tuple(take(blob) for blob in layer.inputs)))
        for blob in layer.outputs:
            if readers[blob] > 1:
                copies = tuple(f"{blob}_{i + 1}" for i in range(readers[blob]))
                result.append(Layer("Split", (blob,), copies))
    return result, tuple(take(blob) for blob in outputs)


def as_ncnn(value: Array) -> Array:
    """Convert an array of a model to ncnn's layout: [1, H, W, C] -> [C, H, W], a single pixel -> a vector."""
    if value.ndim == 4 and value.shape[1:3] != (1, 1):
        return np.ascontiguousarray(value[0].transpose(2, 0, 1))
    return np.ascontiguousarray(value.reshape(-1))


def from_ncnn(value: Array, shape: Sequence[int]) -> Array:
    """Convert ncnn's array back to a tensor of `shape`, the inverse of as_ncnn()."""
    return (value.transpose(1, 2, 0) if value.ndim == 3 else value).reshape(shape)
