"""The stage on which scripts take turns: what is global in a Python process, kept apart for each worker."""

import random
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from weft.adapters.alone import Alone
from weft.core.seat import current
from weft.sim.stage import LINE_CHARACTERS_MAX, LineWriter, PlainSwapper, Stage

SEATS = [Alone(), Alone()]
shown: list[str] = []


def made(seed: int = 0) -> Stage:
    return Stage([PlainSwapper(["train.py", "--fast"], ["/somewhere"])], seed, shown.append)


@pytest.fixture
def stage() -> Iterator[Stage]:
    shown.clear()
    stage = made()
    yield stage
    stage.leave()


def draw() -> tuple[float, float]:
    return random.random(), float(np.random.rand())


def test_workers_begin_with_equal_random_numbers_and_each_goes_on_with_its_own(stage: Stage) -> None:
    first, second, again, other = (stage.enter(worker, SEATS[worker], draw) for worker in (0, 1, 0, 1))
    assert first == second, "until they join, all split their data alike"
    assert again == other != first
    stage.enter(1, SEATS[1], lambda: random.seed(7))
    assert stage.enter(0, SEATS[0], draw) != stage.enter(1, SEATS[1], draw)


def test_taking_turns_does_not_change_what_a_worker_draws(stage: Stage) -> None:
    in_turns = [stage.enter(worker, SEATS[worker], draw) for worker in (0, 1, 0, 1)]
    stage.leave()
    alone = made()
    at_once = [alone.enter(0, SEATS[0], draw), alone.enter(0, SEATS[0], draw)]
    alone.leave()
    assert at_once == in_turns[0::2]


def test_what_a_worker_draws_depends_on_the_seed_of_the_run_only(stage: Stage) -> None:
    first = stage.enter(1, SEATS[1], draw)
    stage.leave()
    drawn = []
    for seed in (0, 1):
        random.seed(99)
        np.random.seed(99)
        again = made(seed)
        drawn.append(again.enter(1, SEATS[1], draw))
        again.leave()
    assert first == drawn[0] != drawn[1]


def test_a_seed_that_one_worker_sets_does_not_reach_another(stage: Stage) -> None:
    def seed() -> None:
        random.seed(5)
        np.random.seed(5)

    stage.enter(0, SEATS[0], seed)
    other = stage.enter(1, SEATS[1], draw)
    mine = stage.enter(0, SEATS[0], draw)
    assert mine == (random.Random(5).random(), np.random.RandomState(5).rand())
    assert other != mine


def test_each_worker_has_its_own_arguments_path_and_main_module(stage: Stage) -> None:
    def spoil() -> None:
        sys.argv.append("--spoilt")
        sys.path.append("/spoilt")
        sys.modules["__main__"].spoilt = True  # type: ignore[attr-defined]

    def look() -> tuple[list[str], list[str], bool]:
        return list(sys.argv), list(sys.path), hasattr(sys.modules["__main__"], "spoilt")

    stage.enter(0, SEATS[0], spoil)
    assert stage.enter(1, SEATS[1], look) == (["train.py", "--fast"], ["/somewhere"], False)
    assert stage.enter(0, SEATS[0], look) == (
        ["train.py", "--fast", "--spoilt"],
        ["/somewhere", "/spoilt"],
        True,
    )


def test_leaving_puts_the_process_back_as_it_was() -> None:
    def standing() -> tuple[Any, ...]:
        of_numpy: Any = np.random.get_state()
        return sys.argv, sys.path, sys.modules["__main__"], random.getstate(), of_numpy[1].tolist()

    before = standing()
    stage = made()
    for worker in (0, 1):
        stage.enter(worker, SEATS[worker], draw)
    stage.leave()
    after = standing()
    assert all(a is b for a, b in zip(before[:3], after[:3], strict=True))
    assert before[3:] == after[3:]


def test_worker_0_is_heard_line_by_line_and_the_others_are_silent(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    for worker in (0, 1):
        stage.enter(worker, SEATS[worker], partial(print, f"I am {worker}\nand", end=""))
    stage.enter(0, SEATS[0], lambda: print(" I go on"))
    assert shown == ["I am 0", "and I go on"]
    assert capsys.readouterr().out == ""


def complain(worker: int) -> None:
    print(f"alas {worker}", file=sys.stderr)


def test_worker_0_may_complain_and_the_others_may_not(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    for worker in (0, 1):
        stage.enter(worker, SEATS[worker], partial(complain, worker))
    assert capsys.readouterr().err == "alas 0\n"


def test_what_worker_0_prints_without_ending_the_line_is_shown_in_the_end(stage: Stage) -> None:
    stage.enter(0, SEATS[0], lambda: print("done", end=""))
    assert shown == []
    stage.leave()
    stage.leave()
    assert shown == ["done"]


def test_the_seat_and_the_output_are_a_workers_own_only_while_it_runs(stage: Stage) -> None:
    outputs = sys.stdout, sys.stderr
    assert stage.enter(0, SEATS[0], current) is SEATS[0]
    assert stage.enter(1, SEATS[1], lambda: (current(), sys.stdout))[0] is SEATS[1]
    assert current() is None
    assert (sys.stdout, sys.stderr) == outputs


def test_a_worker_that_fails_gives_the_output_and_the_seat_back(stage: Stage) -> None:
    outputs = sys.stdout, sys.stderr

    def fail() -> None:
        raise ValueError("alas")

    with pytest.raises(ValueError, match="alas"):
        stage.enter(1, SEATS[1], fail)
    assert current() is None
    assert (sys.stdout, sys.stderr) == outputs


def test_a_line_writer_hands_on_whole_lines() -> None:
    lines: list[str] = []
    writer = LineWriter(lines.append)
    assert writer.writable()
    assert [writer.write(text) for text in ("a", "b\nc\n", "\n", "d")] == [1, 4, 1, 1]
    assert lines == ["ab", "c", ""]


def test_a_line_writer_cuts_what_nobody_could_read() -> None:
    lines: list[str] = []
    LineWriter(lines.append).write("begin" + "x" * 1_000_000 + "end\n")
    assert lines[0].startswith("beginxxx")
    assert lines[0].endswith("xxxend")
    assert len(lines[0]) < LINE_CHARACTERS_MAX + 50
