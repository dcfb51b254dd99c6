"""Writes a gpunn Graph as ncnn's .param and .bin, so that both run the same network with the same weights.

ncnn knows no batch axis and stores channels first: [1, H, W, C] becomes c = C, h = H, w = W, and a tensor of
a single pixel, [1, 1, 1, C] or [1, C], becomes a vector, as pnnx (ncnn's converter) has it. So a
convolution of one pixel is an InnerProduct, and pooling over a whole picture is global pooling. A blob
has one reader; a Split layer makes more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpunn.bench.peers.ncnn_layers import RULES
from gpunn.bench.peers.ncnn_network import Layer, Network
from gpunn.graph.graph import Graph
from gpunn.types import Array

_MAGIC = 7767517


@dataclass(frozen=True, slots=True)
class NcnnModel:
    """Where a network was written to, and its blobs in the order of the model's inputs and outputs."""

    param: Path
    weights: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def write(model: Graph, folder: Path, stem: str = "model") -> NcnnModel:
    """Write `stem`.param and `stem`.bin into `folder`.

    Raises UnsupportedError for what is not written: a batch other than 1, an operation without a
    rule, attributes that ncnn's layer does not have.
    """
    network = Network(model)
    for operation in model.operations:
        network.origin = f"{operation.op} ({operation.origin})"
        if operation.op not in RULES:
            network.refuse("this operation")
        RULES[operation.op](network, operation)
    outputs = network.finish(model)
    layers, outputs = with_splits(network.layers, outputs)
    blobs = sum(len(layer.outputs) for layer in layers)
    lines = [str(_MAGIC), f"{len(layers)} {blobs}", *(layer.line(i) for i, layer in enumerate(layers))]
    param, weights = folder / f"{stem}.param", folder / f"{stem}.bin"
    param.write_text("\n".join(lines) + "\n")
    weights.write_bytes(b"".join(network.weights))
    return NcnnModel(param, weights, network.inputs, outputs)


def with_splits(layers: Sequence[Layer], outputs: Sequence[str]) -> tuple[list[Layer], tuple[str, ...]]:
    """Layers with a Split behind each blob that is read more than once, and the outputs' blobs then.

    Being an output counts as being read.
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
    """An array of a model as ncnn has it: [1, H, W, C] -> [C, H, W], a single pixel -> a vector."""
    if value.ndim == 4 and value.shape[1:3] != (1, 1):
        return np.ascontiguousarray(value[0].transpose(2, 0, 1))
    return np.ascontiguousarray(value.reshape(-1))


def from_ncnn(value: Array, shape: Sequence[int]) -> Array:
    """The inverse of as_ncnn(), for a tensor of `shape`."""
    return (value.transpose(1, 2, 0) if value.ndim == 3 else value).reshape(shape)
