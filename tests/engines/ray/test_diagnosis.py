"""Check-ups of a Ray cluster."""

import pytest
from support.processes.commands import weft_command
from support.processes.ray_nodes import Nodes

from weft.core.errors import ConfigError
from weft.engines.ray.diagnosis import examine_cluster


def test_the_doctor_examines_every_node_and_leaves_nobody_there(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in nodes.environment.items():
        monkeypatch.setenv(name, value)
    checkup = examine_cluster(nodes.address, None)
    assert checkup.num_processes == 2
    assert checkup.missing == []
    (host,) = checkup.hosts  # two nodes on one machine
    assert [card.rank for card in host] == [0, 1]


def test_without_a_cluster_there_is_nothing_to_examine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ConfigError, match="there is no Ray cluster to examine"):
        examine_cluster(None, None)
    ended = weft_command("doctor", "--cluster", "--on", "ray")
    assert (ended.code, ended.out) == (2, "")
    assert "there is no Ray cluster to examine" in ended.err
    assert "--on is for a check-up of a cluster" in weft_command("doctor", "--on", "ray").err
