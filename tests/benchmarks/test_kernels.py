"""The benchmark of kernels, in its shortest form, and what it takes as a call."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import kernels
from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import float32
from tests.ops.harness import random


def test_kernels_from_end_to_end(
    gpu: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "roofline", lambda bench, device: (1e9, 2e9))
    calls = ["conv2d:1x6x6x8:16x1x1x8:stride=1,activation=relu", "fully_connected:2x5:3x5:"]
    kernels.main([*calls, "--markdown"])
    out = capsys.readouterr().out
    assert "- peak: 1.0 GFLOP/s, 2.0 GB/s\n" in out
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.split("\n") if "->" in line]
    assert {line[0] for line in lines} == {
        "conv2d 1x6x6x8 * 16x1x1x8 -> 1x6x6x16",
        "fully_connected 2x5 * 3x5 -> 2x3",
    }
    for _, _, seconds, *rates in lines[:2]:
        work, moved = 2 * 36 * 8 * 16, 4 * (36 * 8 + 8 * 16 + 16 + 36 * 16)
        least, most = (float(seconds) + off for off in (-0.0005, 0.0005))  # ms are rounded to three digits
        for rate, n in ((rates[0], work), (rates[2], moved)):
            assert n / (1e6 * most) - 0.051 <= float(rate.replace(",", ""))
            assert least <= 0 or float(rate.replace(",", "")) <= n / (1e6 * least) + 0.051


def test_the_roofline_is_of_this_adapter(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "COPIED", 1 << 10)
    monkeypatch.setattr(kernels, "INVOCATIONS", 64)
    device = kernels.open_device(None, False)
    assert min(kernels.roofline(kernels.Bench(device), device)) > 0


def test_the_kernel_of_the_roofline_computes_its_formula(gpu: str) -> None:
    model, x = Model("arithmetic"), random(1, 7)
    model.output(*model.add(kernels.arithmetic, [model.input("x", float32(7))]))
    with model.compile(gpu) as compiled:
        np.testing.assert_allclose(compiled(x), np.full(7, 128.0), rtol=1e-5)


def test_a_bias_has_a_number_for_each_output_channel() -> None:
    calls = {"conv2d:1x2x2x4:3x1x1x4": 3, "fully_connected:1x2:5x2": 5, "depthwise_conv2d:1x5x5x4:1x3x3x8": 8}
    for call, channels in calls.items():
        _, _, bias = kernels.parsed(call).inputs
        assert bias is not None and bias.type.shape == (channels,)


def test_operands_that_are_no_filters_are_inputs() -> None:
    product = kernels.parsed("batch_matmul:2x3x4:2x5x4:adj_b=true")
    assert [o.type.shape for o in (*product.inputs, *product.outputs)] == [(2, 3, 4), (2, 5, 4), (2, 3, 5)]
    assert kernels.parsed("softmax:2x3:axis=0,beta=0.5").attrs == {"axis": 0, "beta": 0.5}
    assert kernels.parsed("arg_max:2x3:axis=1").attrs["axis"] == 1
    assert kernels.title(kernels.parsed("arg_max:2x3:axis=1")) == "arg_max 2x3 -> 2"
    assert kernels.parsed("reduce_sum:2x3x4:axes=1x2").outputs[0].type.shape == (2,)
    pool = kernels.parsed("max_pool2d:1x8x8x4:size=2x2,stride=2,padding=same")
    assert pool.outputs[0].type.shape == (1, 4, 4, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("conv2d", "'conv2d' is no call"),
        ("conv2d:stride=1", "'conv2d:stride=1' is no call"),
        ("convolution:1x2:2x2", "there is no op 'convolution'"),
        ("conv2d:1x2x2x4:4x1xax4", "'4x1xax4' in .* is no shape"),
        ("conv2d:1x2x2x4:4x1x1x4:stride", "'stride' in .* is no attribute"),
    ],
)
def test_what_is_no_call_is_refused(call: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        kernels.parsed(call)
