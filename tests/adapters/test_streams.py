"""Streams: batches that only come one after another, shared by turns, whatever the framework."""

from pathlib import Path
from typing import Any

import pytest
from support.processes.launches import TRAIN
from support.processes.real import Heard, real
from support.scripts.training_scripts import ARRAYS, SEEN, simulated, write

from weft.core.errors import ConfigError

BATCHES = """
import random

def batches():
    rows = list(range(21))
    random.shuffle(rows)
    for start in range(0, 21, 3):
        yield np.array(rows[start : start + 3])
"""
LEARN = """
for epoch in worker.epochs(2):
    for rows in worker.share(batches()):
        SEEN.append((epoch, worker.rank, rows.tolist()))
        worker.step({"w": w - rows.mean()}, loss=rows.mean())
"""
LEFT_OUT = (
    "the last 1 of 7 batches are left out, and in later epochs: "
    "workers take the batches of a stream in turn, and there are 3 workers"
)


def test_a_generators_batches_are_taken_in_turn_and_what_makes_no_round_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = simulated(write(tmp_path, ARRAYS, BATCHES, LEARN), 3)
    assert outcome.facts.steps == [4, 4, 4]
    assert outcome.facts.samples == 2 * 18
    assert capsys.readouterr().out == f"{LEFT_OUT}\n"
    for epoch in (0, 1):
        rows = [row for e, _, rows in SEEN if e == epoch for row in rows]
        assert len(set(rows)) == len(rows) == 18
    assert [rows for e, _, rows in SEEN if e == 0] != [rows for e, _, rows in SEEN if e == 1]


def test_one_worker_and_a_script_alone_take_everything(tmp_path: Path) -> None:
    outcome = simulated(write(tmp_path, ARRAYS, BATCHES, LEARN), 1)
    assert (outcome.facts.steps, outcome.facts.samples) == ([14], 42)


def test_a_stream_that_is_sharded_already_is_taken_whole(tmp_path: Path) -> None:
    text = LEARN.replace("batches()", "(np.array([i]) for i in range(worker.rank, 8, 2)), sharded=True")
    outcome = simulated(write(tmp_path, ARRAYS, text), 2)
    assert outcome.facts.steps == [8, 8]
    assert sorted(rows for epoch, _, rows in SEEN if epoch == 0) == [[i] for i in range(8)]


def test_a_list_of_batches_has_a_length_and_a_generator_has_none(tmp_path: Path) -> None:
    text = """
    shared = worker.share([np.arange(3)] * 7)
    SEEN.append((len(shared), len(worker.share([1] * 7, sharded=True)), sum(1 for _ in shared)))
    try:
        len(worker.share(iter([])))
    except TypeError as error:
        SEEN.append(str(error))
    worker.step({"w": w}, samples=1)
    """
    simulated(write(tmp_path, ARRAYS, text), 2)
    assert SEEN == [(3, 7, 3), "object of type 'list_iterator' has no len()"] * 2


@pytest.mark.parametrize(
    ("strategy", "options", "because"),
    [
        ("allreduce", {"share": "proportional"}, "--share proportional divides"),
        ("async_gossip", {"share": "stealing"}, "--share stealing hands out"),
        ("sandblaster", {}, "this strategy hands out"),
    ],
)
def test_what_needs_places_refuses_a_stream(
    tmp_path: Path, strategy: str, options: dict[str, Any], because: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, ARRAYS, BATCHES, LEARN), 2, strategy, **options)
    assert str(refused.value) == (
        f"{because} batches by the places of their samples, but a stream's only come one after another.\n"
        "  Leave it out, or give share() a DataLoader with a batch_size over a dataset that has a length."
    )


def test_batches_that_do_not_tell_their_size_are_counted_by_the_script(tmp_path: Path) -> None:
    text = """
    for item in worker.share(object() for _ in range(6)):
        worker.step({"w": w})
    """
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, ARRAYS, text), 2)
    assert str(refused.value) == (
        "a batch of type 'object' does not tell how many samples it has, so its step would weigh nothing.\n"
        "  Say worker.count(32), with their number, before each backward."
    )
    outcome = simulated(write(tmp_path, ARRAYS, text.replace("worker.step", "worker.count(4); worker.step")), 2)
    assert outcome.facts.samples == 24


def test_real_workers_take_turns_and_a_global_batch_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, TRAIN, "SEEN = []\n", BATCHES, LEARN)
    heard = Heard()
    outcome = real(path, 3, heard=heard)
    assert [final.samples for final in outcome.workers] == [12, 12, 12]
    assert heard.told == [LEFT_OUT]
    with pytest.raises(ConfigError, match=r"data.global_batch=6 divides batches by the places of their samples"):
        real(path, 2, global_batch=6)


OWN_PARTS = """
for rows in worker.share(np.array([i]) for i in range(worker.rank, 8, 2)):
    worker.step({"w": w - rows.mean()})
"""


def test_workers_that_take_turns_at_different_streams_are_refused(tmp_path: Path) -> None:
    because = "workers 0 and 1 read different streams, but worker.share lets all workers take turns at one"
    with pytest.raises(ConfigError, match=because):
        simulated(write(tmp_path, ARRAYS, OWN_PARTS), 2)
    with pytest.raises(ConfigError, match=because):
        real(write(tmp_path, TRAIN, OWN_PARTS), 2)
