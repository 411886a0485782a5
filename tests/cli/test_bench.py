"""weft bench."""

import json
from pathlib import Path

import pytest
from commands import assert_refused, weft_command

from weft.engines import simulator_bench


@pytest.fixture(autouse=True)
def _small_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator_bench, "WORLDS", {"ssp, 4": ("ssp", 4, 5)})


def test_the_simulator_is_measured_shown_and_written(tmp_path: Path) -> None:
    path = tmp_path / "simulator.json"
    ended = weft_command("bench", "simulator", "--blocks", 2, "--json", path)
    assert (ended.code, ended.err) == (0, "")
    report = json.loads(path.read_text())
    assert [row["recorder"] for row in report["rows"]] == ["off", "on"]
    assert report["machine"]["cores"] >= 1
    for row in report["rows"]:
        assert f"{row['events']:,}" in ended.out
        assert "met" in ended.out or "MISSED" in ended.out


def test_at_least_one_block_is_measured() -> None:
    because = "--blocks is 0, but at least 1 must be measured.\n  Use --blocks 15."
    assert_refused("bench", "simulator", "--blocks", 0, because=because)


def test_a_missing_folder_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a.json"
    because = f"'{path}' cannot be written: there is no folder '{path.parent}'.\n  Make it first."
    assert_refused("bench", "simulator", "--json", path, because=because)
