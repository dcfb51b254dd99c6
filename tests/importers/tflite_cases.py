"""Every generated case, and what each operator is checked with besides: the table behind docs/tflite.md.

A new operator gets a line in one of the tables (tflite_cases_reals.py and its neighbours), or stands in
ELSEWHERE; `python -m tests.importers.coverage` then writes its line of the page.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.importers import (
    test_tflite_state,
    tflite_cases_later,
    tflite_cases_quantized,
    tflite_cases_reals,
    tflite_cases_recent,
    tflite_cases_strings,
    tflite_cases_tensors,
    tflite_cases_values,
)
from tests.importers.tflite_case import Case
from tests.importers.tflite_cases_types import in_other_types

_LISTED = (
    *tflite_cases_reals.CASES,
    *tflite_cases_tensors.CASES,
    *tflite_cases_values.CASES,
    *tflite_cases_quantized.CASES,
    *tflite_cases_strings.CASES,
    *tflite_cases_later.CASES,
    *tflite_cases_recent.CASES,
)
CASES: tuple[Case, ...] = (*_LISTED, *in_other_types(_LISTED))

# Files of one operator with state, which several runs compare with LiteRT's.
STATEFUL: tuple[test_tflite_state.Case, ...] = tuple(test_tflite_state.CASES.values())

# Operators that take more than one operator's file to show, or that LiteRT has no kernel for: a test module
# with numbers worked out by hand or LiteRT's answers to whole graphs.
ELSEWHERE: Mapping[str, str] = {
    "ASSIGN_VARIABLE": "test_tflite_resources.py",
    "BUCKETIZE": "test_tflite_later.py",
    "CALL": "test_tflite_subgraphs.py",
    "CALL_ONCE": "test_tflite_resources.py",
    "CONCAT_EMBEDDINGS": "test_tflite_values.py",
    "CUSTOM": "test_tflite_custom.py",
    "DENSIFY": "test_tflite_sparse.py",
    "HASHTABLE": "test_tflite_tables.py",
    "HASHTABLE_FIND": "test_tflite_tables.py",
    "HASHTABLE_IMPORT": "test_tflite_tables.py",
    "HASHTABLE_SIZE": "test_tflite_tables.py",
    "IF": "test_tflite_control.py",
    "READ_VARIABLE": "test_tflite_resources.py",
    "STABLEHLO_COMPOSITE": "test_tflite_subgraphs.py",
    "VAR_HANDLE": "test_tflite_resources.py",
    "WHILE": "test_tflite_control.py",
}

# The newest version of an operator that LiteRT 2 registers and gpunn reads, where that is not the first. What
# newer versions add is mostly types; options of theirs stand in the cases.
NEWEST: Mapping[str, int] = {
    "ABS": 5,
    "ADD": 6,
    "ARG_MAX": 3,
    "ARG_MIN": 3,
    "AVERAGE_POOL_2D": 3,
    "BATCH_MATMUL": 4,
    "BATCH_TO_SPACE_ND": 4,
    "BIDIRECTIONAL_SEQUENCE_LSTM": 3,
    "BIDIRECTIONAL_SEQUENCE_RNN": 3,
    "BROADCAST_TO": 3,
    "CAST": 9,
    "CONCATENATION": 7,
    "CONV_2D": 8,
    "COS": 2,
    "DEPTHWISE_CONV_2D": 7,
    "DEPTH_TO_SPACE": 2,
    "DEQUANTIZE": 9,
    "DIV": 2,
    "EMBEDDING_LOOKUP": 5,
    "EQUAL": 5,
    "EXP": 2,
    "FAKE_QUANT": 2,
    "FILL": 5,
    "FLOOR_DIV": 3,
    "FLOOR_MOD": 2,
    "FULLY_CONNECTED": 14,
    "GATHER": 8,
    "GATHER_ND": 6,
    "GELU": 3,
    "GREATER": 2,
    "GREATER_EQUAL": 3,
    "L2_NORMALIZATION": 2,
    "LEAKY_RELU": 2,
    "LESS": 3,
    "LESS_EQUAL": 2,
    "LOG": 2,
    "LOGISTIC": 3,
    "LOG_SOFTMAX": 2,
    "LSTM": 4,
    "MAXIMUM": 4,
    "MAX_POOL_2D": 3,
    "MEAN": 3,
    "MINIMUM": 4,
    "MIRROR_PAD": 3,
    "MUL": 8,
    "NOT_EQUAL": 4,
    "PACK": 5,
    "PAD": 6,
    "PADV2": 6,
    "QUANTIZE": 6,
    "RANGE": 2,
    "REDUCE_MAX": 3,
    "REDUCE_MIN": 3,
    "REDUCE_PROD": 2,
    "RELU": 3,
    "RELU6": 3,
    "RESIZE_BILINEAR": 4,
    "RESIZE_NEAREST_NEIGHBOR": 4,
    "REVERSE_V2": 4,
    "RNN": 3,
    "RSQRT": 3,
    "SELECT": 4,
    "SELECT_V2": 2,
    "SIGN": 2,
    "SIN": 2,
    "SLICE": 8,
    "SOFTMAX": 4,
    "SPACE_TO_BATCH_ND": 4,
    "SPACE_TO_DEPTH": 2,
    "SPARSE_TO_DENSE": 3,
    "SPLIT": 5,
    "SPLIT_V": 3,
    "SQRT": 2,
    "SQUARED_DIFFERENCE": 2,
    "SQUEEZE": 2,
    "STRIDED_SLICE": 8,
    "SUB": 5,
    "SUM": 2,
    "SVDF": 4,
    "TANH": 3,
    "TILE": 3,
    "TOPK_V2": 3,
    "TRANSPOSE": 9,
    "TRANSPOSE_CONV": 5,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 4,
    "UNIDIRECTIONAL_SEQUENCE_RNN": 3,
    "UNPACK": 6,
    "WHERE": 2,
}
