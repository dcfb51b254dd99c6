"""Rules of TFLite's operators on signals, and the table of those that are custom operators.

TFLite's kernels convert each option to the type that they want (audio_spectrogram.cc, mfcc.cc).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpunn.importers.common.answers import Answer, Step
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.rules.options import expect_counts, options_of

_FREQUENCIES = (
    "lower_frequency_limit",
    "upper_frequency_limit",
)  # whole numbers of Hz, the rest does not count
_COUNTS = ("filterbank_channel_count", "dct_coefficient_count")


def rfft2d(node: Node) -> Step:
    """Translate RFFT2D: the second input has height and width of the transform."""
    return Step("rfft2d", (node.operand(0),), {"length": node.ints(1, "lengths", 2)})


def audio_spectrogram(node: Node) -> Step:
    """Translate AudioSpectrogram of samples [samples, channels]."""
    expect_counts(node, 1, 1)
    options = options_of(node)
    attrs = {name: int(options.number(name)) for name in ("window_size", "stride")}
    squared = bool(options.values.get("magnitude_squared"))
    return Step("spectrogram", node.inputs, {**attrs, "magnitude_squared": squared})


def mfcc(node: Node) -> Step:
    """Translate Mfcc of a spectrogram and its sample rate."""
    expect_counts(node, 2, 1)
    options = options_of(node)
    attrs = {name: int(options.number(name)) for name in (*_FREQUENCIES, *_COUNTS)}
    node.expect_ints(1, "sample rate", 1)
    rate = int(node.constant(1, "sample rate", "int32").reshape(()))
    return Step("mfcc", (node.operand(0),), {**attrs, "sample_rate": rate})


CUSTOM: Mapping[str, Callable[[Node], Answer]] = {"AudioSpectrogram": audio_spectrogram, "Mfcc": mfcc}
