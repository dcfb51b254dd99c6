"""The NNAPI operation table read backwards: the NNAPI operation for an operation of a Model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.importers.common.node import RefusedError
from gpunn.importers.nnapi.codes import FuseCode, LSHProjectionType, OperationCode
from gpunn.importers.nnapi.node import ACTIVATIONS, PADDINGS
from gpunn.importers.nnapi.recurrent import LSTM_ACTIVATIONS
from gpunn.types import DType, Quantization, TensorType

_FUSES = {name: code for code, name in ACTIVATIONS.items()}
_LSTM_FUSES = {name: code for code, name in LSTM_ACTIVATIONS.items()}
_SCHEMES = {name: code for code, name in PADDINGS.items()}


@dataclass(frozen=True, slots=True)
class Listing:
    """An NNAPI operation: its tensors in order, absent ones None, and its other parameters by name.

    A parameter is a number, or a sequence for a TENSOR_INT32, or None for a parameter without a value.
    `since` is the first feature level that can say it, `reason` why the levels before cannot.
    """

    type: OperationCode
    tensors: Sequence[Operand | None]
    params: Mapping[str, Any] = field(default_factory=dict)
    since: int = 27
    reason: str = ""

    def later(self, since: int, reason: str, **params: Any) -> Listing:
        """Return the operation with parameters that feature level `since` added."""
        return replace(self, params={**self.params, **params}, since=since, reason=reason)


Lister = Callable[[Operation], Listing]
NO_SUCH = "NNAPI 1.1 has no such operation"


def expect(fits: bool, reason: str) -> None:
    """Raise RefusedError unless `fits`."""
    if not fits:
        raise RefusedError(reason)


def _plain(code: OperationCode) -> Lister:
    return lambda operation: Listing(code, operation.inputs)


def _fuse(operation: Operation) -> FuseCode:
    name = operation.attrs.get("activation")
    expect(name in _FUSES, f"activation {name} is no FuseCode")
    return _FUSES[name]


def _binary(code: OperationCode) -> Lister:
    return lambda operation: Listing(code, operation.inputs, {"fuse": _fuse(operation)})


def _window(operation: Operation) -> dict[str, Any]:
    """Return stride, padding and activation of a convolution or pool."""
    attrs = operation.attrs
    padding = attrs["padding"]
    if isinstance(padding, str):
        params: dict[str, Any] = {"padding": _SCHEMES[padding]}
    else:
        (top, bottom), (left, right) = padding
        params = {"left": left, "right": right, "top": top, "bottom": bottom}
    height, width = attrs["stride"]
    return {**params, "stride_width": width, "stride_height": height, "fuse": _fuse(operation)}


def _pool(code: OperationCode) -> Lister:
    def listing(operation: Operation) -> Listing:
        height, width = operation.attrs["size"]
        params = {"filter_width": width, "filter_height": height, **_window(operation)}
        return Listing(code, operation.inputs, params)

    return listing


def _biased(operation: Operation) -> list[Operand | None]:
    """Return input, filter and bias, which is not optional in NNAPI and has a scale.

    A missing bias becomes zeros. A constant without a scale gets it.
    """
    x, filter, *rest = operation.inputs
    assert x is not None and filter is not None
    bias = rest[0] if rest else None
    channels = operation.outputs[0].type.shape[-1]
    type = _bias_type(x.type, filter.type, channels)
    if bias is None:
        bias = Operand("no bias", type, Lifetime.CONSTANT, np.zeros(channels, type.dtype.numpy))
    elif bias.value is not None and bias.type.dtype is type.dtype and bias.type.quantization is None:
        bias = replace(bias, type=type)
    return [x, filter, bias]


def _bias_type(x: TensorType, filter: TensorType, channels: int) -> TensorType:
    """Return the type of a layer's bias: its scale is that of the products."""
    if x.quantization is None or filter.quantization is None:
        return TensorType(x.dtype, (channels,))
    scales = tuple(x.quantization.scale[0] * scale for scale in filter.quantization.scale)
    return TensorType(DType.INT32, (channels,), Quantization(scales, (0,) * len(scales)))


def _conv(operation: Operation) -> Listing:
    tensors = _biased(operation)
    x, filter = operation.inputs[0], operation.inputs[1]
    assert x is not None and filter is not None
    groups = x.type.shape[3] // filter.type.shape[3]
    expect(groups == 1, f"{groups} groups, NNAPI 1.1 has none")
    return _dilated(Listing(OperationCode.CONV_2D, tensors, _window(operation)), operation)


def _dilated(listing: Listing, operation: Operation) -> Listing:
    """Return a convolution with its dilation, if it has one."""
    height, width = operation.attrs["dilation"]
    if (height, width) == (1, 1):
        return listing
    reason = f"dilation {operation.attrs['dilation']}, NNAPI 1.1 has none"
    return listing.later(29, reason, layout=False, dilation_width=width, dilation_height=height)


def _depthwise(operation: Operation) -> Listing:
    x, filter = operation.inputs[0], operation.inputs[1]
    assert x is not None and filter is not None
    multiplier = filter.type.shape[3] // x.type.shape[3]
    params = {**_window(operation), "multiplier": multiplier}
    return _dilated(Listing(OperationCode.DEPTHWISE_CONV_2D, _biased(operation), params), operation)


def _fully_connected(operation: Operation) -> Listing:
    expect(operation.outputs[0].type.rank == 2, "keep_dims of more than two, NNAPI gives a matrix")
    return Listing(OperationCode.FULLY_CONNECTED, _biased(operation), {"fuse": _fuse(operation)})


def _concat(operation: Operation) -> Listing:
    expect(operation.attrs["activation"] is None, "CONCATENATION has no fused activation")
    axis = operation.attrs["axis"] % operation.outputs[0].type.rank
    return Listing(OperationCode.CONCATENATION, operation.inputs, {"axis": axis})


def _reshape(operation: Operation) -> Listing:
    return Listing(OperationCode.RESHAPE, operation.inputs, {"shape": operation.outputs[0].type.shape})


def _squeeze(operation: Operation) -> Listing:
    return Listing(OperationCode.SQUEEZE, operation.inputs, {"axes": operation.attrs["axes"] or None})


def _transpose(operation: Operation) -> Listing:
    return Listing(OperationCode.TRANSPOSE, operation.inputs, {"perm": operation.attrs["perm"]})


def _pad(operation: Operation) -> Listing:
    value = operation.attrs["value"]
    expect(value == _stored_zero(operation), f"PAD pads with zeros, not with {value}")
    return Listing(OperationCode.PAD, operation.inputs, {"paddings": operation.attrs["paddings"]})


def _stored_zero(operation: Operation) -> int:
    """Return the stored value for a real 0 in the first input."""
    x = operation.inputs[0]
    assert x is not None
    return 0 if x.type.quantization is None else x.type.quantization.zero_point[0]


def _mean(operation: Operation) -> Listing:
    params = {"axes": operation.attrs["axes"], "keep_dims": int(operation.attrs["keep_dims"])}
    expect(bool(params["axes"]), "MEAN over no axes")
    return Listing(OperationCode.MEAN, operation.inputs, params)


def _softmax(operation: Operation) -> Listing:
    listing = Listing(OperationCode.SOFTMAX, operation.inputs, {"beta": operation.attrs["beta"]})
    return _along(listing, operation, "SOFTMAX is over the last dimension")


def _along(listing: Listing, operation: Operation, reason: str) -> Listing:
    """Return an operation along an axis; `reason` is why levels before 29 have only the last one."""
    rank, axis = operation.outputs[0].type.rank, operation.attrs["axis"]
    return listing if axis % rank == rank - 1 else listing.later(29, reason, axis=axis)


def _resize(operation: Operation) -> Listing:
    height, width = operation.attrs["size"]
    params = {"width": width, "height": height}
    listing = Listing(OperationCode.RESIZE_BILINEAR, operation.inputs, params)
    options = {name: operation.attrs[name] for name in ("align_corners", "half_pixel_centers")}
    for name in (name for name, given in options.items() if given):
        return listing.later(30, f"{name}, NNAPI 1.1 does not have it", layout=False, **options)
    return listing


def _strided_slice(operation: Operation) -> Listing:
    attrs = operation.attrs
    rank = len(attrs["strides"])
    shrunk = {axis % rank for axis in attrs["shrink_axes"]}
    masks = {
        f"{name}_mask": sum((v is None) << i for i, v in enumerate(attrs[name])) for name in ("begin", "end")
    }
    params = {
        "begin": [v or 0 for v in attrs["begin"]],
        "end": [v or 0 for v in attrs["end"]],
        "strides": attrs["strides"],
        **masks,
        "shrink_axis_mask": sum(1 << axis for axis in shrunk),
    }
    return Listing(OperationCode.STRIDED_SLICE, operation.inputs, params)


def _blocks(code: OperationCode) -> Lister:
    def listing(operation: Operation) -> Listing:
        expect(operation.attrs["data_format"] == "NHWC", "NNAPI 1.1 is NHWC")
        return Listing(code, operation.inputs, {"block_size": operation.attrs["block_size"]})

    return listing


def _batch_to_space(operation: Operation) -> Listing:
    crops = np.asarray(operation.attrs["crops"])
    expect(not crops.any(), f"crops {crops.tolist()}, NNAPI 1.1 has none")
    params = {"block_shape": operation.attrs["block_shape"]}
    return Listing(OperationCode.BATCH_TO_SPACE_ND, operation.inputs, params)


def _space_to_batch(operation: Operation) -> Listing:
    value = operation.attrs["value"]
    expect(value == _stored_zero(operation), f"SPACE_TO_BATCH_ND pads with zeros, not with {value}")
    params = {name: operation.attrs[name] for name in ("block_shape", "paddings")}
    return Listing(OperationCode.SPACE_TO_BATCH_ND, operation.inputs, params)


def _l2_normalization(operation: Operation) -> Listing:
    return _along(Listing(OperationCode.L2_NORMALIZATION, operation.inputs), operation, _LAST)


def _local_response(operation: Operation) -> Listing:
    params = {name: operation.attrs[name] for name in ("radius", "bias", "alpha", "beta")}
    listing = Listing(OperationCode.LOCAL_RESPONSE_NORMALIZATION, operation.inputs, params)
    return _along(listing, operation, _LAST)


_LAST = "NNAPI 1.1 normalises the last dimension"


def _lsh(operation: Operation) -> Listing:
    kind = LSHProjectionType[operation.attrs["type"].upper()]
    listing = Listing(OperationCode.LSH_PROJECTION, _filled(operation, 3), {"type": kind})
    if kind is LSHProjectionType.SPARSE and operation.attrs["offset"]:
        reason = "offsets of signatures, NNAPI 1.1 has none"
        return listing.later(29, reason, type=LSHProjectionType.SPARSE_WITH_OFFSET)
    return listing


def _recurrent(code: OperationCode, count: int, fuses: Mapping[str | None, int], *names: str) -> Lister:
    def listing(operation: Operation) -> Listing:
        activation = operation.attrs["activation"]
        expect(activation in fuses, f"activation {activation} is none that {code.name} has")
        params = {"fuse": fuses[activation], **{name: operation.attrs[name] for name in names}}
        return Listing(code, _filled(operation, count), params)

    return listing


def _lstm(operation: Operation) -> Listing:
    listing = _recurrent(OperationCode.LSTM, 20, _LSTM_FUSES, "cell_clip", "proj_clip")(operation)
    if not any(listing.tensors[20:]):
        return replace(listing, tensors=listing.tensors[:20])
    normalised = replace(listing, tensors=_filled(operation, 24))
    return normalised.later(29, "layer normalisation, NNAPI 1.1 has none")


def _floor_div(operation: Operation) -> Listing:
    whole = operation.outputs[0].type.dtype is DType.INT32
    expect(whole, "DIV rounds only integers down")
    return Listing(OperationCode.DIV, operation.inputs).later(30, NO_SUCH, fuse=FuseCode.NONE)


def _filled(operation: Operation, count: int) -> list[Operand | None]:
    """Return the inputs, with None for those left out at the end."""
    return [*operation.inputs, *[None] * (count - len(operation.inputs))]


_PLAIN = (
    "DEQUANTIZE",
    "EMBEDDING_LOOKUP",
    "FLOOR",
    "HASHTABLE_LOOKUP",
    "LOGISTIC",
    "RELU",
    "RELU1",
    "RELU6",
    "TANH",
)
LISTERS: Mapping[str, Lister] = {
    **{name.lower(): _plain(OperationCode[name]) for name in _PLAIN},
    **{name.lower(): _binary(OperationCode[name]) for name in ("ADD", "DIV", "MUL", "SUB")},
    "average_pool2d": _pool(OperationCode.AVERAGE_POOL_2D),
    "batch_to_space_nd": _batch_to_space,
    "concat": _concat,
    "conv2d": _conv,
    "depth_to_space": _blocks(OperationCode.DEPTH_TO_SPACE),
    "depthwise_conv2d": _depthwise,
    "floor_div": _floor_div,
    "fully_connected": _fully_connected,
    "l2_normalization": _l2_normalization,
    "l2_pool2d": _pool(OperationCode.L2_POOL_2D),
    "local_response_normalization": _local_response,
    "lsh_projection": _lsh,
    "lstm": _lstm,
    "max_pool2d": _pool(OperationCode.MAX_POOL_2D),
    "mean": _mean,
    "pad": _pad,
    "reshape": _reshape,
    "resize_bilinear": _resize,
    "rnn": _recurrent(OperationCode.RNN, 5, _FUSES),
    "softmax": _softmax,
    "space_to_batch_nd": _space_to_batch,
    "space_to_depth": _blocks(OperationCode.SPACE_TO_DEPTH),
    "squeeze": _squeeze,
    "strided_slice": _strided_slice,
    "svdf": _recurrent(OperationCode.SVDF, 5, _FUSES, "rank"),
    "transpose": _transpose,
}
