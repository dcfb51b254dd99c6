"""The fuzzer finds what it is for: errors of other libraries, crashes, hangs, and answers that differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpunn
from gpunn.compilation.runtime import LocalCompilation
from gpunn.types import DType, TensorType, float32
from tests.fuzz import __main__ as fuzz
from tests.fuzz.case import Outcome, judge, keep
from tests.fuzz.seeds import FORMATS
from tests.tflite_builder import single_op


def doubling() -> bytes:
    """Return a sound file of one operator."""
    return single_op("ADD", [gpunn.types.float32(2, 3)] * 2, [gpunn.types.float32(2, 3)])


def test_a_short_hunt(tmp_path: Path, gpu: str, capfd: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus"
    assert fuzz.main(["--cases", "40", "--workers", "1", "--corpus", str(corpus)]) == 0
    assert capfd.readouterr().out.startswith("40 cases: ")
    assert {path.suffix for path in corpus.iterdir()} == {format.suffix for format in FORMATS}
    (again, *_) = sorted(corpus.iterdir())
    assert fuzz.main(["--again", str(again)]) == 0


def test_a_model_that_runs_alike_is_no_fault(gpu: str) -> None:
    assert judge(doubling(), 0, ("cpu", "webgpu")) == Outcome("model add")


def test_an_error_that_is_not_of_gpunn_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(data: bytes) -> gpunn.Model:
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr(gpunn, "load", load)
    outcome = judge(b"", 0, ("cpu",))
    assert outcome.kind == "ZeroDivisionError" and outcome.fault.endswith(": by accident")


def test_answers_that_differ_are_a_fault(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = LocalCompilation._run

    def wrong(self: gpunn.Compilation, *args: object, **options: object) -> tuple[np.ndarray, ...]:
        answers = run(self, *args, **options)  # type: ignore[arg-type]
        return tuple(a + np.float32(0.5) if self.backend == "cpu" else a for a in answers)

    monkeypatch.setattr(LocalCompilation, "_run", wrong)
    outcome = judge(doubling(), 0, ("cpu", "webgpu"))
    assert outcome.fault.startswith("webgpu differs from cpu in ")


def test_alike_messages_have_one_key() -> None:
    whole = doubling()
    one, two = (judge(whole[:length], 0, ("cpu",)) for length in (100, 104))
    assert one.kind == "FormatError" and one == two


def test_refusals_differ_by_their_reason_not_by_names_and_numbers() -> None:
    def refused(operator: str, dtype: DType) -> Outcome:
        return judge(single_op(operator, [TensorType(dtype, (2, 3))] * 2, [float32(2, 3)]), 0, ("cpu",))

    found = refused("ADD", DType.STRING)
    assert found.kind == "UnsupportedError"
    assert found == refused("SUB", DType.STRING)
    assert found != refused("ADD", DType.BOOL)


def test_the_number_of_a_case_stands_in_the_name_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inputs of a run are drawn from it."""
    found = fuzz.Found(tmp_path)
    found.take(fuzz.Answer("model", "a fault", False, ".tflite", doubling()), 1234)
    ((path, *_),) = [list((tmp_path / "faults").iterdir())]
    judged: list[int] = []

    def judge(data: bytes, number: int, backends: tuple[str, ...]) -> Outcome:
        judged.append(number)
        return Outcome("model")

    monkeypatch.setattr(fuzz, "judge", judge)
    assert fuzz.main(["--again", str(path)]) == 0
    assert fuzz.main(["--again", str(path.rename(tmp_path / "renamed.tflite"))]) == 0
    assert judged == [1234, 0]


def test_the_corpus_keeps_the_smallest_file_of_an_outcome(tmp_path: Path) -> None:
    outcome = Outcome("model add")
    assert keep(tmp_path, outcome, b"1234", ".tflite")
    assert not keep(tmp_path, outcome, b"12345", ".tflite")
    assert keep(tmp_path, outcome, b"123", ".tflite")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"123"]


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        ("import os; os.abort()", "the process ended with code -6: "),
        ("import time; time.sleep(60)", "no answer within 2 s"),
    ],
    ids=["crash", "hang"],
)
def test_a_lost_worker_is_a_fault_and_its_file_is_kept(
    program: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "START_SECONDS", 2.0)
    fake = f"import sys; open(sys.argv[6], 'wb').write(b'bad'); sys.stdin.readline(); {program}"
    start = fuzz.subprocess.Popen
    monkeypatch.setattr(
        fuzz.subprocess,
        "Popen",
        lambda command, **options: start([command[0], "-c", fake, *command[2:]], **options),
    )
    options = fuzz.parser().parse_args(["--corpus", str(tmp_path), "--workers", "1", "--seconds", "2"])
    found = fuzz.hunt(options, iter(range(2)))
    assert found.kinds == {"lost": 2} and list(found.faults) == [fault.strip() if fault[-1] != " " else fault]
    (kept,) = (tmp_path / "faults").iterdir()
    assert kept.read_bytes() == b"bad"
