"""Functions of PyTorch for ops that resample images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.training.pytorch.tools import Function, functional, torch


def resized(x: Any, size: Sequence[int], mode: str, **options: Any) -> Any:
    """Resize images [N, H, W, C] by torch.nn.functional.interpolate."""
    return functional("interpolate", tuple(size), mode=mode, **options)(x.movedim(3, 1)).movedim(1, 3)


def sampled(x: Any, row: Any, column: Any) -> Any:
    """Sample each image of [N, H, W, C] linearly at points inside, [N, h, w]; grid_sample counts -1 to 1."""
    ends = [max(n - 1, 1) for n in x.shape[1:3]]
    grid = torch.stack([2 * column / ends[1] - 1, 2 * row / ends[0] - 1], -1)
    found = torch.nn.functional.grid_sample(x.movedim(3, 1), grid, padding_mode="border", align_corners=True)
    return found.movedim(1, 3)


def resize_bilinear(
    x: Any, *, size: Sequence[int], align_corners: bool = False, half_pixel_centers: bool = False
) -> Any:
    """PyTorch has no points i H / h: these are sampled one by one."""
    if align_corners or half_pixel_centers:
        return resized(x, size, "bilinear", align_corners=align_corners)
    row, column = (
        (torch.arange(m, dtype=x.dtype) * n / m).clamp(max=n - 1)
        for n, m in zip(x.shape[1:3], size, strict=True)
    )
    return sampled(x, *(p.expand(len(x), *size) for p in (row[:, None], column)))


def resize_nearest(
    x: Any, *, size: Sequence[int], align_corners: bool = False, half_pixel_centers: bool = False
) -> Any:
    """PyTorch has no corners that coincide: rows and columns are listed."""
    if not align_corners:
        return resized(x, size, "nearest-exact" if half_pixel_centers else "nearest")
    for axis, m in enumerate(size, 1):
        n = x.shape[axis]
        x = x.index_select(axis, torch.tensor([int(i * (n - 1) / max(m - 1, 1) + 0.5) for i in range(m)]))
    return x


def points(start: Any, end: Any, count: int, sampling: str) -> Any:
    """Return the points of crop_resize between starts and ends [N], [N, count], by its documentation."""
    d, k = (end - start).abs()[:, None], torch.arange(count, dtype=start.dtype)
    if sampling == "align_endpoints" and count == 1:
        offset = d / 2
    elif sampling.endswith("align_endpoints"):
        offset = d * k / max(count - 1, 1)
    elif sampling == "upsample":
        offset = torch.minimum((d + 1) / count * k, d)
    else:
        offset = torch.minimum(torch.maximum(d, torch.ones_like(d)) / count * (k + 0.5), d)
    return start[:, None] + torch.where((end < start)[:, None], -offset, offset)


def crop_resize(x: Any, boxes: Any, images: Any, *, size: Sequence[int], sampling: str) -> Any:
    top, left, bottom, right = boxes.unbind(1)
    row = points(top, bottom, size[0], sampling).clamp(0, x.shape[1] - 1)
    column = points(left, right, size[1], sampling).clamp(0, x.shape[2] - 1)
    return sampled(x[images], *torch.broadcast_tensors(row[:, :, None], column[:, None]))


def warp_affine(x: Any, matrix: Any, *, size: Sequence[int], half_pixel_centers: bool = False) -> Any:
    """torch.nn.functional.grid_sample blends the border with zeros: points outside are 0 here."""
    shift = 0.5 if half_pixel_centers else 0.0
    i, j = torch.meshgrid(*(torch.arange(n, dtype=x.dtype) + shift for n in size), indexing="ij")
    pixels = torch.stack([j, i, torch.ones_like(i)])
    column, row = torch.einsum("nak,khw->anhw", matrix[:, :2, [0, 1, 3]], pixels) - shift
    height, width = x.shape[1:3]
    inside = (row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1)
    found = sampled(x, torch.where(inside, row, 0.0), torch.where(inside, column, 0.0))
    return torch.where(inside[..., None], found, 0.0)


def rotated_crop_matrix(
    points: Any,
    *,
    scale: Sequence[float],
    origin: Sequence[float],
    rotation: float = 0.0,
    stretch: Sequence[float] = (1.0, 1.0),
    half_turn: bool = False,
) -> Any:
    """The maps that the documentation names, one after the other: matrices [3, 3] of points (x, y, 1)."""
    way = points[1, :2] - points[0, :2]
    if half_turn and way[0] < 0:
        way = -way
    angle = rotation - torch.atan2(way[1], way[0])
    zero, one = points.new_zeros(()), points.new_ones(())

    def matrix(*rows: Sequence[Any]) -> Any:
        return torch.stack(
            [torch.stack([torch.as_tensor(v, dtype=points.dtype) for v in row]) for row in rows]
        )

    turn = matrix((angle.cos(), -angle.sin(), zero), (angle.sin(), angle.cos(), zero), (zero, zero, one))
    turned = points[2:, :2] @ turn[:2, :2].T
    low, high = turned.amin(0), turned.amax(0)
    side, middle = high - low, (low + high) / 2
    origin_first = matrix((1, 0, -origin[0]), (0, 1, -origin[1]), (0, 0, 1))
    sides = torch.diag(torch.stack([side[0] * scale[0], side[1] * scale[1], one]))
    centre = matrix((1, 0, middle[0]), (0, 1, middle[1]), (0, 0, 1))
    whole = torch.diag(points.new_tensor([*stretch, 1])) @ turn.T @ centre @ sides @ origin_first
    flat = torch.eye(4, dtype=points.dtype)
    return torch.stack([torch.stack([r[0], r[1], zero, r[2]]) for r in whole[:2]] + [*flat[2:]])


VISION: Mapping[str, Function] = {
    "crop_resize": crop_resize,
    "resize_bilinear": resize_bilinear,
    "resize_nearest": resize_nearest,
    "rotated_crop_matrix": rotated_crop_matrix,
    "warp_affine": warp_affine,
}
