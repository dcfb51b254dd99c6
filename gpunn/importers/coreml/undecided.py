"""undecided(): the graph of a file whose declared input shapes do not run, for other shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.graph.complete import complete
from gpunn.graph.graph import Graph
from gpunn.importers.common.template import Read
from gpunn.importers.coreml.features import Feature
from gpunn.importers.coreml.file import Model, Network
from gpunn.types import Shape

PROBES = (64, 1031)  # extents that most windows fit, and so different that no pool makes them equal


def undecided(
    model: Model, features: Sequence[Feature], unread: Graph, read: Read, error: FormatError | ModelError
) -> Graph:
    """Return the graph of a file with its layers pending, until a run gives its inputs a shape.

    `error` is what the declared shapes lead to, `unread` the file's template, `read` reads its layers. Many
    files of sequences declare one step, on which a window of several steps does not fit. Raises the error if
    no other shapes are possible, and an error that long sequences have in common: no shape heals it.
    """
    legacy = _legacy(model)
    free = [bool(f.open) or (legacy and not f.color_space) for f in features]
    if not any(free):
        raise error
    errors = [_error(unread, _shapes(features, legacy, extent)) for extent in PROBES]
    first, *others = errors
    if first is not None and all(str(other) == str(first) for other in others):
        raise first
    made = Graph(unread.name)
    for feature, operand, unknown in zip(features, unread.inputs, free, strict=True):
        if unknown and operand.default is None:
            axes = None if legacy else feature.open
            made.unknown_input(operand.name, operand.type, axes, operand.rounds)
        else:
            made.input(
                operand.name,
                operand.type,
                open=feature.open,
                default=operand.default,
                rounds=operand.rounds,
            )
    read(made, made.inputs)
    reason = f"needs inputs of other shapes than the declared ones, which do not run: {error}"
    made.pending[:] = [replace(entry, reason=reason) for entry in made.pending]
    return made


def _legacy(model: Model) -> bool:
    """Tell whether callers may add axes for sequence and batch."""
    if isinstance(model, Network):
        return model.legacy and not model.message.arrayInputShapeMapping
    return any(map(_legacy, model.models))


def _shapes(features: Sequence[Feature], legacy: bool, extent: int) -> list[Shape]:
    """Return other shapes that inputs may have."""
    found = []
    for feature in features:
        shape = [n + extent if k in feature.open else n for k, n in enumerate(feature.type.shape)]
        leading = (extent, extent + 1) if legacy and not feature.color_space and len(shape) in (1, 3) else ()
        found.append((*leading, *shape))
    return found


def _error(unread: Graph, shapes: Sequence[Shape]) -> FormatError | ModelError | None:
    """Return why shapes do not run; None if they do, or may."""
    types = [i.type.with_shape(shape) for i, shape in zip(unread.inputs, shapes, strict=True)]
    try:
        complete(unread, types)
    except (FormatError, ModelError) as error:
        return error
    except UnsupportedError:
        pass
    return None
