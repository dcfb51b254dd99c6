"""onnxruntime as a peer: the order of axes and, if it is installed, its results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpunn.bench.job import Job
from gpunn.bench.peers import PEERS
from gpunn.bench.peers.onnx import CHANNELS_FIRST, layouts

NHWC = (1, 4, 5, 3)


@pytest.mark.parametrize(
    ("declared", "axes"),
    [
        ((1, 4, 5, 3), (0, 1, 2, 3)),
        ((1, 3, 4, 5), CHANNELS_FIRST),
        (("N", 3, None, None), CHANNELS_FIRST),
        (("N", None, None, 3), (0, 1, 2, 3)),
    ],
)
def test_axes_follow_the_file(declared: tuple[int | str | None, ...], axes: tuple[int, ...]) -> None:
    assert layouts("input", [NHWC], [declared]) == [axes]


def test_other_shapes_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"input 0 is \[8, 4, 5, 3\], in the ONNX file \[1, 3, 4, 5\]"):
        layouts("input", [(8, 4, 5, 3)], [(1, 3, 4, 5)])
    with pytest.raises(RuntimeError, match=r"output 0 is \[1, 10\], in the ONNX file \[1, 10, 1\]"):
        layouts("output", [(1, 10)], [(1, 10, 1)])
    with pytest.raises(RuntimeError, match="has 2 outputs, the network 1"):
        layouts("output", [(1, 10)], [(1, 10), (1, 10)])


def test_onnxruntime_has_its_channels_first(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra: bench)")
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 3, 4, 5])
        for name in ("x", "y")
    )
    bias = onnx.numpy_helper.from_array(np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1), "bias")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "bias"], ["y"])], "g", [x], [y], [bias]
    )
    path = tmp_path / "model.onnx"
    opset = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    shape = (2, *NHWC[1:])
    peer = PEERS["onnxruntime"].make()
    peer.load(Job("onnxruntime", "", "", "", 1, [("float32", shape)], onnx=str(path)))
    value = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    (found,) = peer.restore(peer.call(peer.prepare([value])))
    assert np.array_equal(found, value + np.arange(3, dtype=np.float32))
