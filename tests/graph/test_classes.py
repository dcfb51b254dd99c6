"""The names of classes in the answer of a classifier."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn import DType, Model, ModelError, Quantization, TensorType, load
from gpunn.graph.classes import Classes, only_scores
from gpunn.graph.operation import Operand
from gpunn.types import float32
from tests.importers.tflite.test_read import LABELS, packed


def output(type: TensorType) -> Operand:
    return Model().input("scores", type)


def test_of_equal_scores_the_first_class_is_named() -> None:
    classes = Classes((3, 5, 8), "scores", "best")
    found = classes.named(np.array([[0.25, 0.5, 0.5]], np.float32), output(float32(1, 3)))
    assert found == (5, {3: 0.25, 5: 0.5, 8: 0.5})


def test_quantised_scores_are_named_as_reals() -> None:
    type = TensorType(DType.UINT8, (2,), Quantization((0.5,), (2,)))
    assert Classes(("a", "b"), "scores", "best").named(np.array([4, 2], np.uint8), output(type)) == (
        "a",
        {"a": 1.0, "b": 0.0},
    )


def test_there_must_be_one_score_for_each_label() -> None:
    with pytest.raises(ModelError, match="output 'scores' has 4 scores, the model has 2 classes"):
        Classes(("a", "b"), "scores", "best").named(np.zeros((2, 2), np.float32), output(float32(2, 2)))


def test_labels_belong_to_the_only_output_of_their_number() -> None:
    found = only_scores(["a", "b"], [output(float32(1, 2))])
    assert found == Classes(("a", "b"), "scores", "label")
    assert only_scores(["a", "b"], [output(float32(2, 2))]) is None
    assert only_scores(["a", "b"], [output(float32(2)), output(float32(2))]) is None
    assert only_scores([], [output(float32(0))]) is None


def test_a_tflite_classifier_answers_by_its_labels() -> None:
    row = np.array([[1, 4, 3, 4]], np.float32)
    loaded = load(packed(("labels.txt", "\n".join(LABELS))))
    (x,), (y,) = loaded.inputs, loaded.outputs
    with loaded.reshaped({x.name: (1, 4)}).compile("cpu") as compiled:
        found = compiled.predict({x.name: row})
    assert found == {y.name: {"cat": 1, "dog": 4, "bird": 3, "fish": 4}, "label": "dog"}
