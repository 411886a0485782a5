"""weft doctor --cluster, as it is shown."""

from pathlib import Path

import pytest
from support.processes.commands import Ended, assert_refused, weft_command
from support.ui.cluster_checks import RATE, TRIP_S, a_checkup, seen_well

from weft.cli.show import cluster_findings as shown_by
from weft.cli.verbs import doctor as module
from weft.config.cluster import load_cluster
from weft.engines.diagnose.cluster.connections import NOT_CALLED, SILENT
from weft.engines.diagnose.cluster.info import HostFinding
from weft.engines.diagnose.cluster.run import Checkup

SILENT_PAIR = {(1, 0): HostFinding(0, SILENT, "no."), (0, 1): HostFinding(1, NOT_CALLED, "nothing.")}


def shown(monkeypatch: pytest.MonkeyPatch, checkup: Checkup | None, *arguments: object) -> Ended:
    monkeypatch.setattr(module, "take_part", lambda environ, script: checkup)
    return weft_command("doctor", "--cluster", *arguments)


def test_every_pair_has_a_row_and_the_cluster_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "cluster.toml"
    skewed = {(2, 0): seen_well(0, TRIP_S, -0.002, RATE / 1.1)}
    ended = shown(monkeypatch, a_checkup([1, 1, 1], seen=skewed), "--out", out, "--workers-per-host", 2)
    assert (ended.code, ended.err) == (0, "")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ended.out.splitlines() if "│" in line]
    assert rows == [
        ["node1", "node0", "10.0.0.1:4000 (eth0)", "10.0 ms", "100 Mbit/s", "100 Mbit/s", "95 Mbit/s", "+0 us"],
        ["node2", "node0", "10.0.0.1:4000 (eth0)", "10.0 ms", "100 Mbit/s", "90.9 Mbit/s", "86.4 Mbit/s", "-2.0 ms"],
        ["node2", "node1", "10.0.0.2:4001 (eth0)", "10.0 ms", "100 Mbit/s", "100 Mbit/s", "95 Mbit/s", "+0 us"],
    ]
    assert "These hosts can train together. (8.0 s)" in ended.out
    assert f"weft calibrate SCRIPT --cluster {out} -o {out}" in ended.out
    assert load_cluster(str(out)).num_workers == 6


def test_a_pair_in_trouble_ends_it_with_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended = shown(monkeypatch, a_checkup([1, 1], seen=SILENT_PAIR), "--out", tmp_path / "cluster.toml")
    assert (ended.code, ended.err) == (1, "")
    assert "│ node1 │ node0 │ 10.0.0.1:4000 (eth0) │ no answer │" in ended.out
    assert "Training across these hosts will not work before this is fixed: reach." in ended.out
    assert not (tmp_path / "cluster.toml").exists()


def test_pairs_in_trouble_are_shown_when_not_all_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_by, "ROWS_MAX", 2)
    failed = {(3, 2): HostFinding(2, SILENT, "no.")}
    out = shown(monkeypatch, a_checkup([1] * 4, seen=failed)).out
    assert [line.split("│")[1].strip() for line in out.splitlines() if "│" in line] == ["node1", "node3"]
    assert "4 more pairs are not shown." in out


def test_processes_other_than_the_first_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, None) == Ended(0, "", "")


def test_one_host_has_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = shown(monkeypatch, a_checkup([2]))
    assert ended.code == 0
    assert "│" not in ended.out


@pytest.mark.parametrize("option", [("--out", "a.toml"), ("--workers-per-host", 2), ("--script", "a.py")], ids=str)
def test_options_of_clusters_are_refused_without_one(option: tuple[str, object]) -> None:
    assert_refused(
        "doctor", *option, because=f"{option[0]} is for a check-up of a cluster.\n  Add --cluster, or leave it out."
    )
