"""Codes have the numbers of the documents."""

from __future__ import annotations

import enum
import re

import pytest

from gpunn import nnapi
from gpunn.errors import GpunnError
from tests.resources import shared

HEADER, HAL = "seeds/nnapi_neuralnetworks_h.txt", "seeds/nnapi_hal_1.0_types.txt"
PREFIXES = {
    nnapi.OperandCode: "ANEURALNETWORKS_",
    nnapi.OperationCode: "ANEURALNETWORKS_",
    nnapi.FuseCode: "ANEURALNETWORKS_FUSED_",
    nnapi.PaddingCode: "ANEURALNETWORKS_PADDING_",
    nnapi.PreferenceCode: "ANEURALNETWORKS_PREFER_",
    nnapi.ResultCode: "ANEURALNETWORKS_",
}
LATER_TYPES = {  # of feature levels 29 and 30
    "BOOL": 6,
    "TENSOR_FLOAT16": 8,
    "FLOAT16": 10,
    "TENSOR_QUANT8_SYMM_PER_CHANNEL": 11,
    "TENSOR_QUANT8_SYMM": 13,
    "TENSOR_QUANT8_ASYMM_SIGNED": 14,
}
SINCE_1_1 = {"BATCH_TO_SPACE_ND": 29, "MEAN": 31, "SPACE_TO_BATCH_ND": 33, "SQUEEZE": 34, "TRANSPOSE": 37}


@pytest.mark.parametrize("codes", PREFIXES, ids=lambda codes: codes.__name__)
def test_codes_agree_with_the_header(codes: type[enum.IntEnum]) -> None:
    text = shared(HEADER).read_text()
    block = re.search(rf"enum\s+{codes.__name__} \{{(.*?)\}}", text, re.S)
    assert block
    pairs = re.findall(rf"{PREFIXES[codes]}(\w+) = (\d+)", block[1])
    expected = {name: int(number) for name, number in pairs}
    if codes is nnapi.OperationCode:
        expected |= SINCE_1_1
    if codes is nnapi.ResultCode:
        expected |= {"OUTPUT_INSUFFICIENT_SIZE": 8}  # of level 29
    if codes is nnapi.OperandCode:
        expected |= LATER_TYPES
    assert {name: int(code) for name, code in codes.__members__.items()} == expected


@pytest.mark.parametrize(
    "codes", [nnapi.OperandLifeTime, nnapi.DeviceStatus], ids=lambda codes: codes.__name__
)
def test_codes_agree_with_types_hal(codes: type[enum.IntEnum]) -> None:
    block = re.search(rf"enum {codes.__name__} : int32_t \{{(.*?)\}};", shared(HAL).read_text(), re.S)
    assert block
    expected = re.findall(r"^([A-Z_]+),$", block[1], re.M)
    assert [code.name for code in codes] == expected
    assert [int(code) for code in codes] == list(range(len(expected)))


def test_the_size_of_copied_values() -> None:
    name = "MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES"
    assert (
        f"ANEURALNETWORKS_{name} = {nnapi.MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES}"
        in shared(HEADER).read_text()
    )


def test_an_error_has_its_code_and_a_reason() -> None:
    error = nnapi.NnapiError(nnapi.ResultCode.BAD_DATA, "the reason")
    assert isinstance(error, GpunnError)
    assert error.code is nnapi.ResultCode.BAD_DATA
    assert str(error) == "BAD_DATA: the reason"
