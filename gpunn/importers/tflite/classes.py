"""A .tflite classifier for other classes: a new last layer, shapes that follow from it, new labels."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import tflite as schema

from gpunn.errors import UnsupportedError
from gpunn.files import open_zip
from gpunn.graph.graph import Graph
from gpunn.importers.common.rewriting import NewLayer
from gpunn.importers.tflite.file import TfliteFile
from gpunn.importers.tflite.labels import ZIP_ERRORS, texts
from gpunn.importers.tflite.patch import Key, changing, with_contents
from gpunn.importers.tflite.rewriting import content_of, read_constants, stored_operand
from gpunn.importers.tflite.scores import without_scoring
from gpunn.importers.tflite.subgraph import FileGraph, FileOperator
from gpunn.ops.filter import BIAS, FILTER

LABELS = "labels.txt"
_SHAPE, _SIGNATURE, _NEW_SHAPE = 4, 18, 4  # places of fields in their tables' lists


def with_classes(
    data: bytes,
    name: str,
    options: Mapping[str, Any],
    graph: Graph,
    layer: NewLayer | None,
    labels: Sequence[str],
) -> bytes:
    """Return a .tflite classifier with a new last layer, and with these labels in its zip archive.

    The calibration of scores in its metadata goes, for it is that of other weights. Raises UnsupportedError
    if the layer's weights are no float32 or float16 tensors, or if what follows the layer is made for its
    classes in a form that gpunn does not change, and FormatError for a damaged file.
    """
    with changing(name):
        body, archive = _divided(data)
        old = graph.outputs[0].type.shape[-1]
        if layer is not None:
            body = _Exchange.of(body, name, options, graph, layer).file()
        return _with_labels(without_scoring(body, name), archive, old, labels)


@dataclass(frozen=True, slots=True, eq=False)
class _Exchange:
    """A layer that is exchanged: its operator, its constants by tensor, and the file that it is in."""

    file_: TfliteFile
    layer: NewLayer
    operator: FileOperator
    constants: Mapping[Key, bytes]
    filters: frozenset[int]

    @classmethod
    def of(
        cls, data: bytes, name: str, options: Mapping[str, Any], graph: Graph, layer: NewLayer
    ) -> _Exchange:
        file, read, keys = read_constants(data, name, options, graph)
        operation = read.operations[layer.number]
        found, filters = dict[Key, bytes](), set[int]()
        for index, values in ((FILTER, layer.filter), (BIAS, layer.bias)):
            operand = operation.inputs[index] if index < len(operation.inputs) else None
            if operand is None:
                continue
            key = keys.get(stored_operand(read, operand))
            if key is None or key[0] != 0:
                _fail(name, f"its last layer, {operation.origin}, computes with constants of another form")
            found[key] = content_of(file, file.graph(0).tensors[key[1]], operand, operation, values)
            filters |= {key[1]}
        users = [o for o in file.graph(0).operators if f"{name}: {o}" == operation.origin]
        if len(users) != 1:
            _fail(name, f"no operator is its last layer, {operation.origin}")
        return cls(file, layer, users[0], found, frozenset(filters))

    def file(self) -> bytes:
        """Return the file with the new layer, and other shapes of what follows from it."""
        data = bytearray(self.file_.data)
        model = schema.Model.GetRootAs(data, 0)
        graph, contents = self.file_.graph(0), dict(self.constants)
        weights = _reached(graph, self.filters, until=self.operator)
        results = _reached(graph, self.operator.outputs)
        readers = [o for o in graph.operators if not weights.isdisjoint(o.inputs)]
        others = [o for o in readers if weights.isdisjoint(o.outputs) and o is not self.operator]
        if others:
            _fail(self.file_.name, f"{others[0]} reads its weights, too")
        edits = {**dict.fromkeys(weights, 0), **dict.fromkeys(results, -1)}
        for index, axis in edits.items():
            self._resize(data, model, index, axis)
        for number, operator in enumerate(graph.operators):
            if results.isdisjoint(i for i in operator.inputs if i is not None):
                continue
            self._resize_shape_option(data, model.Subgraphs(0).Operators(number), operator)
            for given in operator.inputs:
                if given is not None and given not in results:
                    contents |= self._resized_constant(given, operator)
        return with_contents(bytes(data), contents)

    def _resize(self, data: bytearray, model: Any, index: int, axis: int) -> None:
        """Let a tensor have as many elements along an axis as there are classes."""
        tensor = self.file_.graph(0).tensors[index]
        if not tensor.stored or tensor.stored[axis] != self.layer.old:
            _fail(
                self.file_.name, f"{tensor} has shape {[*tensor.stored]}, expected {self.layer.old} classes"
            )
        table = model.Subgraphs(0).Tensors(index)._tab
        for field in (_SHAPE, _SIGNATURE):
            place = table.Offset(field)
            if place and table.VectorLen(place):
                at = table.Vector(place) + 4 * (axis % table.VectorLen(place))
                if struct.unpack_from("<i", data, at)[0] >= 0:  # -1 leaves the extent open
                    struct.pack_into("<i", data, at, self.layer.count)

    def _resize_shape_option(self, data: bytearray, table: Any, operator: FileOperator) -> None:
        """Let the option that RESHAPE has for its shape, beside or instead of an input, follow."""
        if operator.options_type != "ReshapeOptions" or table.BuiltinOptions() is None:
            return
        options = table.BuiltinOptions()
        place = options.Offset(_NEW_SHAPE)
        if place and options.VectorLen(place):
            at = options.Vector(place) + 4 * (options.VectorLen(place) - 1)
            if struct.unpack_from("<i", data, at)[0] == self.layer.old:
                struct.pack_into("<i", data, at, self.layer.count)

    def _resized_constant(self, index: int, operator: FileOperator) -> dict[Key, bytes]:
        """Return a constant that an operator after the layer reads, if it is a shape with the classes."""
        tensor = self.file_.graph(0).tensors[index]
        value = self.file_.value(tensor)
        if value is None or value.ndim != 1 or value.dtype.kind != "i" or not value.size:
            if value is not None and self.layer.old in value.shape:
                _fail(self.file_.name, f"{operator}, after the last layer, has a constant for each class")
            return {}
        changed = value.copy()
        if changed[-1] == self.layer.old:
            changed[-1] = self.layer.count
        return {(0, index): changed.tobytes()}


def _reached(graph: FileGraph, start: Iterable[int], until: FileOperator | None = None) -> set[int]:
    """Return the tensors that are computed of some, and these; not by an operator or what comes after it."""
    found = set(start)
    for operator in graph.operators:
        if operator is until:
            break
        if not found.isdisjoint(i for i in operator.inputs if i is not None):
            found.update(operator.outputs)
    return found


def _divided(data: bytes) -> tuple[bytes, bytes]:
    """Return the model and the zip archive behind it, which may be empty."""
    try:
        with open_zip(io.BytesIO(data)) as archive:
            start = min((m.header_offset for m in archive.infolist()), default=archive.start_dir)
            return data[:start], data[start:]
    except ZIP_ERRORS:
        return data, b""


def _with_labels(body: bytes, archive: bytes, old: int, labels: Sequence[str]) -> bytes:
    """Put a zip archive behind a model: as it was, without files of one line for each of the old classes."""
    stream, name = io.BytesIO(), LABELS
    stream.write(body)
    known = {n: len(text.rstrip("\n").splitlines()) for n, text in texts(archive, ".txt").items()}
    stale = [n for n, lines in known.items() if lines == old]
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as made:
        if archive:
            with open_zip(io.BytesIO(archive)) as read:
                for member in read.infolist():
                    if member.filename not in stale:
                        made.writestr(member, read.read(member))
        text = "".join(f"{label}\n" for label in labels)
        made.writestr(zipfile.ZipInfo(stale[0] if stale else name, (1980, 1, 1, 0, 0, 0)), text)
    return stream.getvalue()


def _fail(name: str, what: str) -> NoReturn:
    raise UnsupportedError(f"{name}: the last layer cannot be exchanged: {what}")
