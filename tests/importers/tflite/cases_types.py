"""Cases of float32 once more in other types, if LiteRT's operator takes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from gpunn.types import Array, DType, TensorType
from tests.importers.tflite.case import Case, Fed, Item

F16, I16, I32, I64, I8, U8, BOOL, C64 = (
    DType.FLOAT16,
    DType.INT16,
    DType.INT32,
    DType.INT64,
    DType.INT8,
    DType.UINT8,
    DType.BOOL,
    DType.COMPLEX64,
)
WHOLE, BYTES = (I32, I64), (U8, I8)  # bytes without quantisation
SMALL = (*BYTES, I16)
ALL = (*WHOLE, *BYTES, I16, F16, BOOL)
TYPES = {
    "ADD": WHOLE,
    "ARG_MAX": (I32,),
    "ARG_MIN": (I32,),
    "AVERAGE_POOL_2D": SMALL,
    "BATCH_TO_SPACE_ND": ALL,
    "CONCATENATION": (*WHOLE, BOOL),
    "CUMSUM": (I64,),
    "DEPTH_TO_SPACE": (*WHOLE, *BYTES),
    "EMBEDDING_LOOKUP": ALL,
    "EXPAND_DIMS": (*ALL, C64),
    "GATHER": ALL,
    "GATHER_ND": ALL,
    "HASHTABLE_LOOKUP": ALL,
    "MAXIMUM": WHOLE,
    "MAX_POOL_2D": SMALL,
    "MINIMUM": WHOLE,
    "MIRROR_PAD": (*ALL, C64),
    "MUL": WHOLE,
    "NEG": (I8,),
    "PACK": (I64, *BYTES, I16),
    "PAD": ALL,
    "PADV2": ALL,
    "REDUCE_MAX": (I64,),
    "REDUCE_MIN": (I64,),
    "REDUCE_PROD": (I64, *SMALL),
    "REDUCE_WINDOW": SMALL,
    "RESHAPE": (*ALL, C64),
    "RESIZE_BILINEAR": SMALL,
    "RESIZE_NEAREST_NEIGHBOR": (I32, *BYTES, I16, F16, BOOL),
    "REVERSE_V2": ALL,
    "SCATTER_ND": (*BYTES, I64),
    "SELECT": (*ALL, C64),
    "SELECT_V2": (*ALL, C64),
    "SIGN": (I32,),
    "SLICE": (*ALL, C64),
    "SPACE_TO_BATCH_ND": ALL,
    "SPACE_TO_DEPTH": (*WHOLE, *BYTES),
    "SPARSE_TO_DENSE": (*WHOLE, *BYTES),
    "SPLIT": (*WHOLE, *BYTES, I16),
    "SPLIT_V": (*WHOLE, *BYTES, I16),
    "SQUEEZE": (*ALL, C64),
    "STRIDED_SLICE": (*ALL, C64),
    "STABLEHLO_ADD": SMALL,
    "STABLEHLO_MULTIPLY": SMALL,
    "SUB": WHOLE,
    "SUM": (I64,),
    "TILE": (*ALL, C64),
    "TOPK_V2": (I64,),
    "TRANSPOSE": (*ALL, C64),
    "UNPACK": (*BYTES, I16, F16, BOOL),
}


def in_other_types(cases: Iterable[Case]) -> list[Case]:
    """Return the first case of each operator with float32 inputs, in the types of its line."""
    first: dict[str, Case] = {}
    for case in cases:
        if any(t.dtype is DType.FLOAT32 for t in case.types()):
            first.setdefault(case.operator, case)
    return [_turned(first[operator], dtype) for operator, dtypes in TYPES.items() for dtype in dtypes]


def _turned(case: Case, dtype: DType) -> Case:
    outputs = [dtype if output is DType.FLOAT32 else output for output in case.outputs]
    return replace(case, inputs=[_item(item, dtype) for item in case.inputs], outputs=outputs)


def _item(item: Item, dtype: DType) -> Item:
    if isinstance(item, TensorType) and item.dtype is DType.FLOAT32:
        return TensorType(dtype, item.shape)
    if isinstance(item, Fed) and item.value.dtype == np.float32:
        return Fed(_values(item.value, dtype))
    return _values(item, dtype) if isinstance(item, np.ndarray) and item.dtype == np.float32 else item


def _values(reals: Array, dtype: DType) -> Array:
    """Return whole numbers of about the same size; unsigned types have no negative ones."""
    if dtype is F16:
        return reals.astype(np.float16)
    scaled = np.round(reals * 3)
    return (np.abs(scaled) if dtype in (U8, BOOL) else scaled).astype(dtype.numpy)
