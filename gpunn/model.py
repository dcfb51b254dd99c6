"""Model and load(): the public face of a graph. A Model can be compiled; a Graph knows no backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, overload

from gpunn.arguments import expect_flag
from gpunn.custom import CustomOperator
from gpunn.errors import ModelError
from gpunn.files import replace_file
from gpunn.garbage import rare_collections
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.pixels import PixelScale
from gpunn.graph.reshape import rebuilt, reshaped
from gpunn.graph.scores import Scoring
from gpunn.importers import Source, check_suffix, contents_of, read
from gpunn.limits import UNLIMITED, Limits
from gpunn.types import Shape
from gpunn.updating import updated

if TYPE_CHECKING:
    from gpunn.compilation.base import Compilation
    from gpunn.compilation.preference import Preference


@dataclass(slots=True, repr=False)
class Model(Graph):
    """A graph that can be compiled for a backend.

    Build one with input(), constant(), variable(), add(), update() and output(), or read one with load().
    """

    @classmethod
    def of(cls, graph: Graph) -> Model:
        """Return a model of the graph's own operands and operations, which the two share."""
        return cls(**{f.name: getattr(graph, f.name) for f in fields(graph)})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy a model that was loaded as its file; any other as its operations."""
        if self.template is None or self.template.contents is None:
            return Model, tuple(getattr(self, f.name) for f in fields(self))
        data, options = self.template.contents()
        shapes = [i.type.shape for i in self.inputs]
        stated = self.name, self.labels, self.pixel_scale, self.scoring
        return _loaded_again, (data, options, stated, shapes)

    def reshaped(self, shapes: Mapping[str, Sequence[int]]) -> Model:
        """Return the same model, on the same weights, for inputs of other shapes, given by name.

        Inputs that are not named keep their shape. Extents may change, and ranks where the operations allow
        it (as with ResizeInputTensor of TFLite's interpreter). Raises ModelError for an unknown name and for
        shapes that do not fit the operations, UnsupportedError where these cannot run on them.
        """
        return Model.of(reshaped(self, shapes))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file that the model was loaded from; of a trained model with its new weights.

        All else of the file stays. Weights that it has as float16 are rounded to the nearest. Raises
        UnsupportedError if the model is of no file, as those that NNAPI or calls have made; if it was changed
        otherwise than by training; and if trained weights are quantised in the file. Raises FormatError if
        `path` ends as files of another format do, OSError if the file cannot be written: then a file that was
        there stays, if its folder has room for another one.
        """
        data, _ = contents_of(self)
        check_suffix(data, path)
        replace_file(path, data)

    @overload
    def update(self, variable: Operand, operand: Operand) -> None: ...

    @overload
    def update(
        self,
        batches: Any,
        *,
        epochs: int | None = None,
        learning_rate: float | None = None,
        mini_batch_size: int | None = None,
        shuffle: bool | None = None,
        seed: int | None = None,
        on_progress: Callable[..., bool | None] | None = None,
        backend: str = "auto",
        device: str | int | None = None,
    ) -> Model: ...

    def update(self, *args: Any, **options: Any) -> Model | None:
        """Train the updatable network of an .mlmodel file as the file says, and return the updated model.

        batches: examples, or mini-batches of them. For arguments and errors see gpunn.update(), which this
        calls. While a model is built, update(variable, operand) says what a variable takes after each run:
        see Graph.update().
        """
        if len(args) + len({"variable", "operand"} & {*options}) == 2:
            return super(Model, self).update(*args, **options)  # a dataclass with slots is another class
        trained: Model = updated(self, *args, **options)
        return trained

    def compile(
        self,
        backend: str = "auto",
        preference: Preference | str | None = None,
        *,
        relaxed: bool = False,
        device: str | int | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        threads: int | None = None,
        device_memory_limit: int | None = None,
        isolate: bool = False,
    ) -> Compilation:
        """Make the model ready to run, for inputs of other `shapes` if given (see reshaped()).

        isolate: compile and run in a worker process, so that a driver that ends its process raises
        DeviceError here; see gpunn.isolation.compilation and docs/reliability.md.
        For the other arguments and the errors see gpunn.compilation.compiler.compile_model.
        """
        model = self.reshaped(shapes) if shapes else self
        make: Callable[..., Compilation]
        # Imported when they are needed, as long as reading a model does without them.
        if expect_flag("isolate", isolate):
            from gpunn.isolation.compilation import isolated as make
        else:
            from gpunn.compilation.compiler import compile_model as make
        return make(
            model,
            backend,
            preference,
            relaxed=relaxed,
            device=device,
            threads=threads,
            device_memory_limit=device_memory_limit,
        )


def _loaded_again(
    data: bytes,
    options: Mapping[str, Any],
    stated: tuple[str, tuple[str, ...], PixelScale | None, Scoring | None],
    shapes: Sequence[Shape],
) -> Model:
    """Return a model that was pickled as its file, for inputs of the shapes that it had."""
    model = load(data, **options)
    if [i.type.shape for i in model.inputs] != shapes:
        model = Model.of(rebuilt(model, shapes))
    model.name, model.labels, model.pixel_scale, model.scoring = stated
    return model


def load(
    source: Source, *, custom: Mapping[str, CustomOperator] | None = None, limits: Limits | None = None
) -> Model:
    """Read a model from the path of a file or of an .mlpackage folder, or from a file's bytes.

    `custom` says what custom operators of a .tflite file stand for, by name, before those that gpunn
    brings, and custom layers of an .mlmodel file, by class; see gpunn.custom.

    `limits` are what the model may take, now and when it is compiled and run; None: all of it. Raises
    LimitError if the file wants more.

    The format is told by the content, not by the name. Raises FormatError when the file cannot be read or
    is not what it says; if an operation is what refuses its operands or attributes, the error is a ModelError
    as well. Raises UnsupportedError when the file holds operators, types or features that gpunn does not run:
    all of them in one message, and ModelError for arguments of other kinds.
    """
    if not isinstance(source, (str, os.PathLike, bytes, bytearray, memoryview)):
        raise ModelError(f"load() takes a path or the bytes of a file, got {type(source).__name__}")
    if limits is not None and not isinstance(limits, Limits):
        raise ModelError(f"limits must be gpunn.Limits, got {type(limits).__name__}")
    operators = {} if custom is None else custom
    if not isinstance(operators, Mapping) or not all(
        isinstance(each, CustomOperator) for each in operators.values()
    ):
        raise ModelError(f"custom must be a mapping from names to gpunn.CustomOperator, got {custom!r}")
    with rare_collections():
        return Model.of(read(source, {"custom": custom}, limits or UNLIMITED))
