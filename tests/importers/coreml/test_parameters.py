"""No layer type is untested, and none of its parameters: a stored case has it, or a test worked out by hand.

A parameter is tested if cases have each value of it, for booleans and enumerations; two values of any other
number; each of several alternatives; and a list or a message that is there.
"""

from __future__ import annotations

import ast
import csv
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from gpunn.importers.coreml.messages import model_class
from gpunn.importers.coreml.reader import LAYER_TYPES
from tests.importers.coreml.builder import Message
from tests.importers.coreml.conformance import FOLDER, covered
from tests.importers.coreml.coverage import cases, layer_types
from tests.resources import ROOT, shared

HERE = ROOT / "tests" / "importers" / "coreml"
THERE = "there"  # what is noted of a list or a message
DEPTH = 4  # of messages in the parameters of a layer
# What no stored case has, and the tests that do.
BY_HAND = {
    "simpleRecurrent.activation.*": "test_recurrent::test_simple_recurrent",
    "gru.activations.*": "test_recurrent::test_gru",
    "*LSTM.activations.*": "test_recurrent::test_lstm",
    "biDirectionalLSTM.activations*.*": "test_recurrent::test_bidirectional_lstm",
    "cropResize.boxIndicesMode.boxMode": "test_vision::test_crops_by_all_conventions",
    "cropResize.mode.samplingMethod": "test_vision::test_crops_by_all_conventions",
    "scatterND.mode": "test_by_hand::test_scattered_slices_and_elements",
    "scatterAlongAxis.mode": "test_by_hand::test_elements_scattered_along_an_axis",
    "reduceL2.reduceAll": "test_by_hand::test_length_of_a_whole_tensor",
    "layerNormalization.eps": "test_by_hand::test_epsilon_of_layer_normalization",
    "custom": "test_custom::test_parameters_are_attributes",
    "custom.className": "test_custom::test_what_nobody_explains_is_refused_by_its_class",
    "custom.description": "test_custom::test_parameters_are_attributes",
    "custom.weights": "test_custom::test_weights_are_operands",
    "custom.parameters*": "test_custom::test_parameters_are_attributes",
    "random*": "test_random::test_distributions",
    "categoricalDistribution*": "test_random::test_classes",
}


@cache
def format_fields() -> tuple[dict[tuple[str, str], tuple[int, str]], dict[str, set[int]]]:
    """The fields of the format by message and name, each with number and type; enumerations' values."""
    fields, values = {}, defaultdict(set)
    with shared(f"{FOLDER}/fields.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["type"] == "enum value":
                values[row["message"]].add(int(row["number"]))
            else:
                fields[row["message"], row["field"]] = int(row["number"]), row["type"]
    return fields, values


def layer_fields() -> list[FieldDescriptor]:
    """The fields of the parameters of all layer types."""
    return list(model_class()().neuralNetwork.layers.add().DESCRIPTOR.oneofs_by_name["layer"].fields)


Seen = dict[str, set[Any]]


def look(message: Message, path: str, seen: Seen) -> None:
    """Note the values of all parameters of a message, by their path; lists and messages are THERE, too."""
    seen[path].add(THERE)
    for field in message.DESCRIPTOR.fields:
        value, name = getattr(message, field.name), f"{path}.{field.name}"
        if hasattr(value, "extend"):
            seen[name].update({THERE} if len(value) else ())
            for item in value:
                look(item, name, seen) if field.message_type else seen[name].add(item)
        elif not field.message_type:
            seen[name].add(value)
        elif message.HasField(field.name):
            if field.message_type.name == "NeuralNetwork":
                look_at_layers(value, seen)
            look(value, name, seen)


def look_at_layers(network: Message, seen: Seen) -> None:
    """Note the parameters of all layers of a network."""
    for layer in network.layers:
        kind = layer.WhichOneof("layer")
        look(getattr(layer, kind), kind, seen)


@cache
def stored() -> Seen:
    """What the parameters of all stored cases are that give their answers."""
    seen: Seen = defaultdict(set)
    for case in cases():
        if covered(case):
            model = model_class().FromString(case.model_bytes)
            look_at_layers(getattr(model, model.WhichOneof("Type")), seen)
    return seen


def untested(message: Any, path: str, depth: int = DEPTH) -> Iterator[str]:
    """Yield the parameters, by their path, that stored cases do not test."""
    fields, values = format_fields()
    types = {m.replace(".", "_"): m for m, _ in fields}
    for field in message.fields if depth else ():
        name, found = f"{path}.{field.name}", stored()[f"{path}.{field.name}"]
        kind = fields.get((types.get(message.name, ""), field.name), (0, ""))[1]
        if field.message_type:
            if THERE not in found:
                yield name
            elif field.message_type.name not in ("NeuralNetwork", "WeightParams"):
                yield from untested(field.message_type, name, depth - 1)
        elif kind in values:
            yield from (f"{name}={value}" for value in sorted(values[kind] - found))
        elif field.type == FieldDescriptor.TYPE_BOOL:
            yield from (f"{name}={value}" for value in (False, True) if value not in found)
        elif THERE not in found and len(found) < 2:
            yield name


@pytest.mark.parametrize("kind", sorted(LAYER_TYPES))
def test_every_parameter_is_tested(kind: str) -> None:
    (field,) = (f for f in layer_fields() if f.name == kind)
    missing = [*([] if THERE in stored()[kind] else [kind]), *untested(field.message_type, kind)]
    named = {path: next((p for p in BY_HAND if fnmatch(path.partition("=")[0], p)), "") for path in missing}
    assert [path for path, pattern in named.items() if not pattern] == []
    for pattern in filter(None, named.values()):
        file, _, test = BY_HAND[pattern].partition("::")
        tree = ast.parse((HERE / f"{file}.py").read_text(encoding="utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_parameter_of_the_format_is_in_the_field_table() -> None:
    """Else a file could state it, and the reader would leave it out without a word."""
    fields, _ = format_fields()
    wanted = {m.replace(".", "_"): m for m, _ in fields}
    messages, left = {}, [f.message_type for f in layer_fields()]
    while left:
        message = left.pop()
        if message.name not in messages:
            messages[message.name] = {f.name: f.number for f in message.fields}
            left += [f.message_type for f in message.fields if f.message_type]
    compared = 0
    for name, ours in messages.items():
        theirs = {f: n for (m, f), (n, _) in fields.items() if m == wanted.get(name)}
        if name not in ("Empty", "NeuralNetwork", "NeuralNetworkLayer"):
            assert ours == theirs, name
            compared += 1
    assert compared > 80
    assert len(layer_types()) == len({f for (m, f), _ in fields.items() if m == "NeuralNetworkLayer"}) - 6
