"""What was measured is kept for other processes, for one adapter, driver, wgpu and gpunn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpunn
from gpunn.cache import Key
from gpunn.tuning import measurement, records
from gpunn.tuning.records import Records
from gpunn.tuning.result import Record
from tests.tuning.candidates import model

Offer = Callable[..., None]
Renew = Callable[[], None]
KEY = Key("an adapter", "its driver", "Vulkan")
ONE, TWO = Record(1, (2.0, 1.0), ("", "")), Record(0, (1.0, None), ("", "wrong"))


def stored(folder: Path) -> dict[str, Any]:
    (file,) = folder.iterdir()
    entries: dict[str, Any] = json.loads(file.read_text())["records"]
    return entries


def test_a_new_process_measures_nothing(
    gpu: str, offer: Offer, new_process: Renew, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer("slow", "quick")
    first = gpunn.tune(model())
    assert [call.measured for call in first.calls] == [True]
    assert [entry[0] for entry in stored(folder).values()] == [1]
    new_process()
    with monkeypatch.context() as patch:
        patch.setattr(measurement.Bench, "record", lambda *_: pytest.fail("measured again"))
        second = gpunn.tune(model())
    assert [replace(call, measured=True) for call in second.calls] == list(first.calls)
    assert not second.calls[0].measured
    assert gpunn.tune(model(), again=True).calls[0].measured
    offer("quick", "slow")  # another choice to make
    assert gpunn.tune(model()).calls[0].measured


def test_a_folder_that_cannot_be_written_is_no_error(
    gpu: str, offer: Offer, new_process: Renew, folder: Path
) -> None:
    folder.write_text("")
    offer("slow", "quick")
    first = gpunn.tune(model())
    assert first.calls[0].measured and not first.stored
    assert not gpunn.tune(model()).calls[0].measured, "this process remembers"
    new_process()
    assert gpunn.tune(model()).calls[0].measured


@pytest.mark.parametrize("end", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_file_that_cannot_be_replaced_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    def refuse(*_: object) -> None:
        raise end

    assert Records(KEY).store({"one": ONE})
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", refuse)
        if isinstance(end, OSError):
            assert not Records(KEY).store({"two": TWO})
        else:
            with pytest.raises(KeyboardInterrupt):
                Records(KEY).store({"two": TWO})
    assert list(stored(folder)) == ["one"], "and no other file is left"


@pytest.mark.parametrize(
    "entry",
    [
        [2, [2.0, 1.0], ["", ""]],
        [-1, [2.0, 1.0], ["", ""]],
        [True, [2.0, 1.0], ["", ""]],
        [1, [2.0, None], ["", ""]],
        [1, [2.0, "1"], ["", ""]],
        [1, [2.0, float("nan")], ["", ""]],
        [1, [2.0, 1.0], ["", "wrong"]],
        [1, [2.0, 1.0], [""]],
        [1, [2.0, 1.0]],
        "1",
        None,
    ],
)
def test_damaged_entries_are_ignored(folder: Path, new_process: Renew, entry: Any) -> None:
    Records(KEY).store({"one": ONE})
    (file,) = folder.iterdir()
    document = json.loads(file.read_text())
    document["records"]["two"] = entry
    file.write_text(json.dumps(document))
    new_process()
    again = Records(KEY)
    assert again.get("two", 2) is None
    again.store({"two": TWO})
    new_process()
    assert Records(KEY).get("two", 2) == TWO


@pytest.mark.parametrize("text", ["", "{", "[]", '{"records": {}}', "[" * 60_000])
def test_a_damaged_file_is_replaced(folder: Path, new_process: Renew, text: str) -> None:
    Records(KEY).store({"one": ONE})
    (file,) = folder.iterdir()
    file.write_text(text)
    new_process()
    assert Records(KEY).get("one", 2) is None
    Records(KEY).store({"two": TWO})
    assert list(stored(folder)) == ["two"]


OTHERS = ({"adapter": "b"}, {"driver": "c"}, {"wgpu": "0"}, {"version": "0"})


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_other_circumstances_have_other_records(folder: Path, other: dict[str, Any]) -> None:
    Records(KEY).store({"one": ONE})
    elsewhere = Records(replace(KEY, **other))
    assert elsewhere.get("one", 2) is None
    elsewhere.store({"one": TWO})
    assert len(list(folder.iterdir())) == 2
    assert Records(KEY).get("one", 2) == ONE


def test_a_record_fits_only_as_many_candidates(new_process: Renew) -> None:
    Records(KEY).store({"one": ONE})
    new_process()
    found = Records(KEY)
    assert found.get("one", 2) == ONE and found.get("one", 3) is None


def test_what_other_processes_store_meanwhile_stays(folder: Path, new_process: Renew) -> None:
    first = Records(KEY)
    new_process()
    Records(KEY).store({"two": TWO})
    first.store({"one": ONE})
    assert sorted(stored(folder)) == ["one", "two"]


def test_a_file_does_not_grow_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_RECORDS", 3)
    kept = Records(KEY)
    for number in range(5):
        kept.store({str(number): ONE})
    assert list(stored(folder)) == ["2", "3", "4"]


def test_records_that_do_not_fit_the_file_push_out_the_oldest(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_BYTES", 6000)
    long = Record(0, (1.0, None), ("", "x" * 150))
    kept = Records(KEY)
    for number in range(20):
        assert kept.store({str(number): long})
    names = list(stored(folder))
    assert 1 < len(names) < 20 and names[-1] == "19"
    (file,) = folder.iterdir()
    assert file.stat().st_size <= 6000


def test_files_of_old_drivers_are_removed(folder: Path) -> None:
    for number in range(20):
        Records(replace(KEY, driver=str(number))).store({"one": ONE})
    assert len(list(folder.iterdir())) == 16
    assert Records(replace(KEY, driver="19")).get("one", 2) == ONE
