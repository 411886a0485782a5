"""Saves of all workers: who writes which model, also when workers are lost and replaced before all have come."""

from weft.engines.real.barriers import welcome
from weft.engines.real.run_saves import RunSaves
from weft.runtime.messages import Saves


class Run:
    """Saves of three workers whose replicas differ, and what the user is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.saves = RunSaves(self.told.append)
        self.members = {0, 1, 2}

    def save(self, *ranks: int, number: int = 0) -> list[bool]:
        message = Saves(number, path=f"model-{number}")
        return [self.saves.take(rank, message, self.members, is_alike=False) for rank in ranks]

    def replace(self, rank: int, sponsor: int) -> None:
        self.saves.lose(rank)
        welcome(rank, sponsor, self.saves.barriers.values())


def test_the_last_to_come_writes_and_the_path_is_told_as_saved() -> None:
    run = Run()
    assert run.save(0, 2, 1) == [False, False, True]
    run.saves.has_written(1)
    assert run.saves.end(0, run.members) == {}
    assert (run.saves.saved, run.told) == (["model-0"], [])


def test_what_a_lost_worker_was_writing_may_not_be_written() -> None:
    run = Run()
    run.save(0, 1, 2)
    run.saves.lose(2)
    assert run.told == ["'model-0' may not be written: worker 2, which was to save it, is lost"]
    assert run.saves.saved == []


def test_at_the_end_the_first_worker_writes_what_was_left_because_one_was_lost_before_it_came() -> None:
    run = Run()
    run.save(0, 1)
    run.replace(2, sponsor=0)
    assert run.saves.end(0, run.members) == {0: [0]}


def test_what_only_the_predecessor_of_the_first_worker_knew_of_is_written_by_another_that_came() -> None:
    run = Run()
    run.save(0, 1)
    run.replace(2, sponsor=0)
    run.replace(0, sponsor=1)
    run.save(0, 1, 2, number=1)
    run.saves.has_written(2)
    assert run.saves.end(0, run.members) == {1: [0]}
    assert (run.saves.saved, run.told) == (["model-0", "model-1"], [])


def test_what_only_predecessors_knew_of_is_not_written_and_that_is_told() -> None:
    run = Run()
    run.save(0, 1)
    run.replace(2, sponsor=0)
    run.replace(0, sponsor=1)
    run.replace(1, sponsor=0)
    assert run.saves.end(0, run.members) == {}
    assert run.told == ["'model-0' may not be written: the workers that were to save it are lost"]
    assert run.saves.saved == []
