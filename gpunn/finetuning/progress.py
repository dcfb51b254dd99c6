"""The progress of finetune(), and what an epoch came to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class FinetuneProgress:
    """The progress of finetune(): photos read, features computed, or mini-batches trained in an epoch.

    `done` of `total` in the stage; `epoch` counts from 0. loss: of the last mini-batch; accuracy: on the
    photos that measure, behind the last mini-batch of an epoch.
    """

    stage: Literal["photos", "features", "training"]
    done: int
    total: int
    epoch: int | None = None
    loss: float | None = None
    accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of finetune(): the mean loss of its mini-batches, and the accuracy after it.

    accuracy: the share of the photos that measure whose class is named rightly; None without such photos.
    """

    loss: float
    accuracy: float | None


OnProgress = Callable[[FinetuneProgress], bool | None]
