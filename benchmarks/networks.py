"""Well-known networks with random weights as .tflite files: python -m benchmarks.networks FOLDER [NAME...]

The time of a network does not depend on its weights, so no trained file is needed to measure it. The weights
are normal, with a deviation of sqrt(gain / terms): the gain of a network keeps its classes apart, but not one
of them certain. Shapes are those of the papers; batch normalisation is folded into weights, as converters do.

NAME_int8 is the network in int8, weights with a scale for each channel: Google's own quantizer for such files
makes it (ai-edge-quantizer, extra bench), from the ranges that normal inputs give.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

import gpunn
from benchmarks.network import SEED, Network

INT8 = "_int8"
SAMPLES = 4  # runs that give the ranges of tensors


def resnet50() -> bytes:
    """He et al. 2015, table 1: 50 layers, with the stride in the 3x3 convolution."""
    net = Network(1, 224, 224, 3, gain=1.1)
    x = net.max_pool(net.conv(net.input, 64, 7, 2, "RELU"), 3)
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            y = net.conv(net.conv(x, width, activation="RELU"), width, 3, step, "RELU")
            shortcut = net.conv(x, 4 * width, 1, step) if block == 0 else x
            x = net.pair("ADD", net.conv(y, 4 * width), shortcut, fused_activation_function="RELU")
    return net.classes(x)


def _swish(net: Network, x: int) -> int:
    return net.pair("MUL", x, net.function("LOGISTIC", x))


def _hard_gate(net: Network, x: int) -> int:
    """Append relu6(x + 3) / 6."""
    raised = net.pair("ADD", x, net.constant(3.0), fused_activation_function="RELU6")
    return net.pair("MUL", raised, net.constant(1 / 6))


def efficientnet_b0() -> bytes:
    """Tan and Le 2019, table 1; squeeze to a quarter of each block's input."""
    net = Network(1, 224, 224, 3, gain=2.7)
    x = _swish(net, net.conv(net.input, 32, 3, 2))
    stages = (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    )
    for expansion, channels, blocks, stride, size in stages:
        for block in range(blocks):
            depth, step = net.shape(x)[3], stride if block == 0 else 1
            y = x if expansion == 1 else _swish(net, net.conv(x, expansion * depth))
            y = _swish(net, net.depthwise(y, size, step))
            squeezed = _swish(net, net.conv(net.mean(y, (1, 2)), depth // 4))
            gate = net.function("LOGISTIC", net.conv(squeezed, net.shape(y)[3]))
            y = net.conv(net.pair("MUL", y, gate), channels)
            x = net.pair("ADD", y, x) if net.shape(x) == net.shape(y) else y
    return net.classes(_swish(net, net.conv(x, 1280)))


def mobilenet_v3() -> bytes:
    """Howard et al. 2019, table 1: MobileNetV3-Large."""
    net = Network(1, 224, 224, 3, gain=2.0)
    x = net.function("HARD_SWISH", net.conv(net.input, 16, 3, 2))
    rows = (
        (3, 16, 16, False, False, 1),
        (3, 64, 24, False, False, 2),
        (3, 72, 24, False, False, 1),
        (5, 72, 40, True, False, 2),
        (5, 120, 40, True, False, 1),
        (5, 120, 40, True, False, 1),
        (3, 240, 80, False, True, 2),
        (3, 200, 80, False, True, 1),
        (3, 184, 80, False, True, 1),
        (3, 184, 80, False, True, 1),
        (3, 480, 112, True, True, 1),
        (3, 672, 112, True, True, 1),
        (5, 672, 160, True, True, 2),
        (5, 960, 160, True, True, 1),
        (5, 960, 160, True, True, 1),
    )
    for size, wide, channels, squeeze, hard, stride in rows:
        relu = "NONE" if hard else "RELU"
        y = x if wide == net.shape(x)[3] else net.conv(x, wide, activation=relu)
        y = net.depthwise(net.function("HARD_SWISH", y) if hard else y, size, stride, relu)
        y = net.function("HARD_SWISH", y) if hard else y
        if squeeze:
            squeezed = net.conv(net.mean(y, (1, 2)), -(-wide // 32) * 8, activation="RELU")
            y = net.pair("MUL", y, _hard_gate(net, net.conv(squeezed, wide)))
        y = net.conv(y, channels)
        x = net.pair("ADD", y, x) if net.shape(x) == net.shape(y) else y
    x = net.function("HARD_SWISH", net.conv(x, 960))
    x = net.function("HARD_SWISH", net.conv(net.mean(x, (1, 2)), 1280))
    return net.classes(x)


def _layer_norm(net: Network, x: int) -> int:
    """Normalise rows in the operators that converters write."""
    axes = (len(net.shape(x)) - 1,)
    mean = net.mean(x, axes)
    variance = net.mean(net.pair("SQUARED_DIFFERENCE", x, mean), axes)
    scale = net.function("RSQRT", net.pair("ADD", variance, net.constant(1e-6)))
    return net.pair("MUL", net.pair("SUB", x, mean), scale)


def vit_block() -> bytes:
    """Dosovitskiy et al. 2020, figure 1: an encoder block of ViT-Tiny: 197 tokens of 192 numbers, 3 heads."""
    tokens, width, heads = 197, 192, 3
    net = Network(1, tokens, width)
    rows = _layer_norm(net, net.input)
    q, k, v = (
        net.transpose(net.reshape(net.dense(rows, width), 1, tokens, heads, width // heads), 0, 2, *order)
        for order in ((1, 3), (3, 1), (1, 3))
    )
    scores = net.add("BATCH_MATMUL", [q, k], 1, heads, tokens, tokens)
    scores = net.pair("MUL", scores, net.constant(1 / math.sqrt(width / heads)))
    seen = net.add(
        "BATCH_MATMUL", [net.function("SOFTMAX", scores, beta=1.0), v], 1, heads, tokens, width // heads
    )
    joined = net.reshape(net.transpose(seen, 0, 2, 1, 3), 1, tokens, width)
    x = net.pair("ADD", net.dense(joined, width), net.input)
    wide = net.function("GELU", net.dense(_layer_norm(net, x), 4 * width))
    return net.file(net.pair("ADD", net.dense(wide, width), x))


def unet() -> bytes:
    """Ronneberger et al. 2015, figure 1, with padding, from 32 channels on and four levels, on 128 x 128."""
    net = Network(1, 128, 128, 3)
    x, levels = net.input, (32, 64, 128, 256)
    kept = []
    for channels in levels:
        x = net.max_pool(x, 2) if kept else x
        x = net.conv(net.conv(x, channels, 3, activation="RELU"), channels, 3, activation="RELU")
        kept.append(x)
    for channels, skip in zip(levels[-2::-1], kept[-2::-1], strict=True):
        shape = net.shape(skip)
        size = net.constant(shape[1:3])
        x = net.conv(net.add("RESIZE_NEAREST_NEIGHBOR", [x, size], *shape[:3], net.shape(x)[3]), channels, 3)
        x = net.add("CONCATENATION", [skip, x], *shape[:3], 2 * channels, axis=3)
        x = net.conv(net.conv(x, channels, 3, activation="RELU"), channels, 3, activation="RELU")
    return net.file(net.function("LOGISTIC", net.conv(x, 1)))


def densenet121() -> bytes:
    """Huang et al. 2016, table 1: four dense blocks; what normalises several parts is two operators."""
    net = Network(1, 224, 224, 3, gain=1.9)

    def normalised(x: int) -> int:
        scale, shift = (net.graph.constant(np.full(net.shape(x)[3], v, np.float32)) for v in (1.1, -0.1))
        return net.pair("ADD", net.pair("MUL", x, scale), shift, fused_activation_function="RELU")

    x, growth = net.max_pool(net.conv(net.input, 64, 7, 2, "RELU"), 3), 32
    for layers in (6, 12, 24, 16):
        if net.shape(x)[3] > 64:
            x = net.average_pool(net.conv(normalised(x), net.shape(x)[3] // 2), 2)
        for _ in range(layers):
            new = net.conv(net.conv(normalised(x), 4 * growth, activation="RELU"), growth, 3)
            x = net.add("CONCATENATION", [x, new], *net.shape(x)[:3], net.shape(x)[3] + growth, axis=3)
    return net.classes(normalised(x))


def r3d18() -> bytes:
    """Tran et al. 2018, table 1: R3D-18, residual blocks of 3 x 3 x 3, on 16 frames of 112 x 112."""
    net, cube = Network(1, 16, 112, 112, 3, gain=1.0), (3, 3, 3)
    x = net.conv3d(net.input, 64, (3, 7, 7), (1, 2, 2), "RELU")
    for channels in (64, 128, 256, 512):
        for step in (1 if channels == 64 else 2, 1):
            steps = (step, step, step)
            y = net.conv3d(net.conv3d(x, channels, cube, steps, "RELU"), channels, cube)
            skip = x if net.shape(x) == net.shape(y) else net.conv3d(x, channels, (1, 1, 1), steps)
            x = net.pair("ADD", y, skip, fused_activation_function="RELU")
    return net.classes(x, 400)


NETWORKS: Mapping[str, Callable[[], bytes]] = {
    "resnet50": resnet50,
    "efficientnet_b0": efficientnet_b0,
    "mobilenet_v3": mobilenet_v3,
    "vit_block": vit_block,
    "unet": unet,
    "densenet121": densenet121,
    "r3d18": r3d18,
}


def made(name: str) -> bytes | None:
    """Return the file of the network NAME, or NAME_int8; None if there is none of this name.

    Raises SystemExit if it is NAME_int8 and ai-edge-quantizer is not installed.
    """
    network = NETWORKS.get(name.removesuffix(INT8))
    if network is None:
        return None
    return quantized(network()) if name.endswith(INT8) else network()


def quantized(file: bytes) -> bytes:
    """Return a float32 network in int8, with the ranges that normal inputs give."""
    try:  # takes a second, and only these networks need it
        from ai_edge_quantizer.quantizer import Quantizer
        from ai_edge_quantizer.recipe import static_wi8_ai8
    except ImportError:
        raise SystemExit(f"NAME{INT8} needs ai-edge-quantizer: pip install 'gpunn[bench]'") from None

    rng, shapes = np.random.default_rng(SEED), [tensor.type.shape for tensor in gpunn.load(file).inputs]
    samples = [
        {f"in{k}": rng.standard_normal(shape).astype(np.float32) for k, shape in enumerate(shapes)}
        for _ in range(SAMPLES)
    ]
    # It prints sizes, which are no part of a benchmark's answer, and its interpreter warns of memory.
    with redirect_stdout(sys.stderr), warnings.catch_warnings(action="ignore"):
        quantizer = Quantizer(file, static_wi8_ai8())
        ranges = quantizer.calibrate({"serving_default": samples})
        return bytes(quantizer.quantize(ranges).quantized_model)


def written(name: str, folder: Path) -> Path:
    """Write a network into a folder, and return its file; or return the file of that name."""
    network = made(name)
    if network is None:
        return Path(name)
    file = folder / f"{name}.tflite"
    file.write_bytes(network)
    return file


def loaded(name: str) -> gpunn.Model:
    """Make a network, or read the file of that name."""
    network = made(name)
    return gpunn.load(name if network is None else network)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the networks that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}, all by default; or NAME_int8"
    )
    options = parser.parse_args(arguments)
    known = {name + kind for name in NETWORKS for kind in ("", INT8)}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"there is no network {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or NETWORKS:
        print(written(name, options.folder))


if __name__ == "__main__":
    main()
