"""Large values of .mlmodel files: taken out before protobuf decodes the file, and found as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

import gpunn
from gpunn.importers.coreml import chunks
from gpunn.importers.coreml.chunks import Chunks, whole, without_chunks
from gpunn.importers.coreml.messages import model_class
from gpunn.importers.coreml.wire import encoded, encoded_bytes
from tests.importers.coreml.builder import Message, layer, model
from tests.importers.coreml.conformance import loader
from tests.importers.coreml.mutation import in_pipeline
from tests.importers.damage import damaged_bytes

ALL = 1  # byte; so everything that can be taken out is


def put_back(message: Message, found: Chunks) -> Message:
    """Put values back into a message that was decoded without them."""
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in value if hasattr(value, "extend") else (value,):
                put_back(part, found)
        elif field.type == FieldDescriptor.TYPE_BYTES:
            if hasattr(value, "extend"):
                value[:] = [bytes(whole(part, found)) for part in value]
            else:
                setattr(message, field.name, bytes(whole(value, found)))
    return message


def decoded(data: bytes) -> bytes | None:
    """The message in a file as it would be written; None if protobuf refuses the file."""
    try:
        return model_class().FromString(data).SerializeToString()
    except DecodeError:
        return None


def decoded_in_parts(data: bytes) -> bytes | None:
    rest, found = without_chunks(data)
    try:
        return put_back(model_class().FromString(rest), found).SerializeToString()
    except DecodeError:
        return None


def products(values: int, form: str = "floatValue") -> Message:
    """A model that multiplies by two matrices, of so many values in all."""
    made = model((values // 2,), exact=True)
    for k in range(2):
        params = layer(made, "innerProduct", ["x"], [["y", "z"][k]])
        params.inputChannels, params.outputChannels = values // 2, 1
        stored = np.arange(values // 2, dtype="<f4") + k
        if form == "floatValue":
            params.weights.floatValue.append(stored.tobytes())
        else:
            params.weights.float16Value = stored.astype("<f2").tobytes()
    made.description.output.add(name="z").type.multiArrayType.dataType = 65568
    return made


def cases() -> Iterator[bytes]:
    """The file of one conformance case of each group."""
    seen: set[str] = set()
    for case in loader().load():
        if case.layer not in seen:
            seen.add(case.layer)
            yield case.model_bytes


def test_a_file_in_parts_is_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LARGE", ALL)
    taken = 0
    for data in cases():
        assert decoded_in_parts(data) == decoded(data)
        taken += len(without_chunks(data)[1])
    assert taken > 100


def test_a_damaged_file_in_parts_is_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LARGE", ALL)
    random, answers = Random(0), set[bool]()
    for data in cases():
        for _ in range(20):
            damaged = damaged_bytes(data, random)
            expected = decoded(damaged)
            assert decoded_in_parts(damaged) == expected
            answers.add(expected is None)
    assert answers == {True, False}


def test_values_in_pipelines_and_bodies_are_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LARGE", 100)
    made = model((3,), exact=True)
    branch = layer(made, "branch", ["x"], [])
    for body in (branch.ifBranch, branch.elseBranch):
        params = layer(body, "loadConstantND", [], ["y"])
        params.shape.append(100)
        params.data.floatValue.append(np.ones(100, "<f4").tobytes())
    data = in_pipeline([made, made]).SerializeToString()
    rest, found = without_chunks(data)
    assert len(found) == 4
    assert len(rest) < len(data) - 4 * 400 + 4 * 40
    assert decoded_in_parts(data) == data


@pytest.mark.parametrize("form", ["floatValue", "float16Value"])
@pytest.mark.parametrize("shift", range(4))
def test_weights_are_read_from_the_file(form: str, shift: int) -> None:
    """Wherever they lie: `shift` moves them."""
    made = products(2 * chunks.LARGE, form)
    made.description.output[0].shortDescription = "a" * shift
    data = made.SerializeToString()
    rest, found = without_chunks(data)
    assert len(found) == 2
    assert len(rest) < 1000
    loaded = gpunn.load(data)
    weights = [
        o.value for op in loaded.operations for o in op.inputs if o is not None and o.value is not None
    ]
    matrices = [w.reshape(-1) for w in weights if w.size == chunks.LARGE]
    for k, matrix in enumerate(matrices):
        np.testing.assert_array_equal(
            matrix, (np.arange(chunks.LARGE) + k).astype("f2" if "16" in form else "f4")
        )
        assert matrix.flags.aligned
    assert len(matrices) == 2


def test_weights_in_several_chunks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LARGE", 16)
    made = model((8,), exact=True)
    params = layer(made, "loadConstantND", [])
    params.shape.append(8)
    for part in (range(4), range(4, 7), range(7, 8)):  # the last one is not large
        params.data.floatValue.append(np.array(part, "<f4").tobytes())
    with gpunn.load(made.SerializeToString()).compile("cpu") as compiled:
        np.testing.assert_array_equal(compiled(np.zeros(8, np.float32)), np.arange(8))


def test_what_looks_like_a_token_is_no_token() -> None:
    made = model((5,), exact=True)
    params = layer(made, "loadConstantND", [])
    params.shape.append(5)
    values = np.arange(5, dtype="<f4")
    assert values.nbytes == chunks.TOKEN_BYTES
    params.data.floatValue.append(values.tobytes())
    with gpunn.load(made.SerializeToString()).compile("cpu") as compiled:
        np.testing.assert_array_equal(compiled(np.zeros(5, np.float32)), values)


def test_a_number_of_bytes_that_is_no_number_of_floats_is_refused() -> None:
    made = products(2 * chunks.LARGE)
    made.neuralNetwork.layers[1].innerProduct.weights.floatValue[0] += b"\0"
    with pytest.raises(gpunn.FormatError, match="no whole number of floats"):
        gpunn.load(made.SerializeToString())


def test_a_length_of_more_bytes_than_protobuf_takes_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LARGE", ALL)
    long = bytes([0x80 | 8, *[0x80] * 4, 0])  # 8 in six bytes
    data = encoded_bytes(500, encoded_bytes(1, b"\xa2\x06" + long + bytes(8)))
    assert decoded(data) is None
    assert decoded_in_parts(data) is None


def test_many_small_fields_are_not_all_looked_at() -> None:
    """A file of small fields only costs little more than protobuf's own work."""
    small = encoded(1 << 3) + encoded(0)
    data = encoded_bytes(500, small * 100_000 + encoded_bytes(1, bytes(chunks.LARGE)))
    walk = chunks._Walk(memoryview(data), [], [], 50)
    assert walk.message("Model", 0, len(data), 0) == len(data)
    assert b"".join(walk.pieces) == data
    assert walk.left == 0


def test_a_pickled_model_is_its_file() -> None:
    data = products(2 * chunks.LARGE).SerializeToString()
    template = gpunn.load(data).template
    assert template is not None and template.contents is not None
    assert template.contents()[0] == data
