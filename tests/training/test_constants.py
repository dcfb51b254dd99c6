"""Constants that are layers of a file, or that no operation reads, as weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpunn
from tests.importers.coreml import builder

STORED = np.array([1, 2, 3], np.float32)


@pytest.mark.parametrize("exact", [True, False])
def test_constants_that_are_layers_are_saved(exact: bool, tmp_path: Path) -> None:
    """Also beside one that says a shape, in whose place the file must not get numbers of weights."""
    made = builder.model((3,), exact=exact)
    if exact:
        builder.constant(made, "w", STORED)
        builder.constant(made, "shape", [3, 1])
        builder.layer(made, "multiplyBroadcastable", ["x", "w"], ["z"])
        builder.layer(made, "reshapeDynamic", ["z", "shape"], ["y"])
    else:
        params = builder.layer(made, "loadConstant", [], ["w"])
        params.shape.extend((3, 1, 1))
        params.data.floatValue.append(builder.floats(STORED))
        builder.layer(made, "multiply", ["x", "w"], ["y"])
    model = gpunn.load(made.SerializeToString())
    (weight,) = (
        i
        for o in model.operations
        for i in o.inputs
        if i is not None and i.value is not None and i.value.size == 3
    )
    x, target = np.ones(3, np.float32), np.zeros(model.outputs[0].type.shape, np.float32)
    chosen = {"loss": "mean_squared_error", "optimizer": gpunn.SGD(0.375), "backend": "cpu"}
    with gpunn.Trainer(model, trainable=[weight], **chosen) as trainer:  # type: ignore[arg-type]
        trainer.step(x, target)
        trained = trainer.model()
    trained.save(tmp_path / "trained.mlmodel")
    with gpunn.load(tmp_path / "trained.mlmodel").compile("cpu") as compiled:
        # The loss is the mean of w^2, its gradient 2 w / 3.
        np.testing.assert_allclose(np.ravel(compiled(x)), STORED * 0.75, rtol=2**-22)


def test_constants_that_nothing_reads_are_refused() -> None:
    model = gpunn.Model()
    x, unread = model.input("x", gpunn.TensorType(gpunn.DType.FLOAT32, (3,))), model.constant("c", STORED)
    model.output(*model.add("neg", [x]), unread)
    chosen = {"loss": "mean_squared_error", "optimizer": gpunn.SGD(0.375), "output": model.outputs[0]}
    with pytest.raises(gpunn.ModelError, match=r"no operation reads <constant 'c' float32.3.>"):
        gpunn.Trainer(model, trainable=[unread], **chosen)  # type: ignore[arg-type]
