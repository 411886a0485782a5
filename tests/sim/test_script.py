"""A user's unmodified script as a simulated worker."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from weft.core.errors import ConfigError, IllegalCall, NodeLost
from weft.core.leaving import ScriptLeft
from weft.core.script_state import EVALUATING, IN_REPORT, REPORT, ScriptState, refusal
from weft.core.seat import TWICE
from weft.sim.program import BackwardDone, PortionWanted, ReportDone, SaveAsked, StepDone
from weft.sim.script import JoinCalled, ScriptPlan, ScriptProgram, ScriptSeat
from weft.sim.stage import PlainSwapper, Stage

TRAINING = """
    import sys
    import numpy as np
    import weft

    w = np.zeros(2)
    worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.5), strategy="ssp")
    for epoch in worker.epochs(2):
        for rows in worker.share(6, batch_size=3):
            worker.step({"w": np.full(2, len(rows))}, loss=0.25)
        worker.report(loss=1.5)
    worker.save("model.safetensors")
"""


class World:
    """Scripts of one text on one stage."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "train.py"
        self.shown: list[str] = []
        self.stage = Stage([PlainSwapper([str(self.path), "--fast"], sys.path)], 0, self.shown.append)
        self.shared: dict[object, Any] = {}
        self.programs: list[ScriptProgram] = []
        self.seats: list[ScriptSeat] = []

    def script(self, text: str, num_workers: int = 1, steps_max: int | None = None) -> ScriptProgram:
        """Write the script and make its workers; returns worker 0's."""
        self.path.write_text(dedent(text))
        self.seats = [ScriptSeat(rank, num_workers, 0, steps_max, self.shared) for rank in range(num_workers)]
        self.programs = [ScriptProgram(str(self.path), seat, self.stage) for seat in self.seats]
        return self.programs[0]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    for program in world.programs:
        program.abandon()
    world.stage.leave()


def to_the_end(program: ScriptProgram) -> list[Any]:
    """All requests after joining."""
    return list(iter(program.resume, None))


def test_a_script_pauses_where_it_would_communicate(world: World) -> None:
    program = world.script(TRAINING, num_workers=2)
    joined = program.resume()
    assert isinstance(joined, JoinCalled)
    assert joined.strategy == "ssp"
    assert joined.replica.layout() == ["w (2,) float64"]
    epoch = [BackwardDone(3.0), StepDone(3.0, 0.25)]
    assert to_the_end(program) == [
        *epoch,
        ReportDone(0, {"loss": 1.5}),
        *epoch,
        ReportDone(1, {"loss": 1.5}),
        SaveAsked("model.safetensors", "result"),
    ]
    assert program.resume() is None, "a script that has ended stays ended"


def test_a_script_says_what_it_is_about_to_do(world: World) -> None:
    program = world.script(TRAINING, num_workers=2)
    program.resume()
    assert world.seats[0].planned is None
    program.resume()
    assert world.seats[0].planned == ScriptPlan(num_epochs=2, num_samples=6, batch_size=3, drop_last=False)


def test_a_script_ends_early_when_the_run_has_fewer_steps(world: World) -> None:
    program = world.script(TRAINING, num_workers=2, steps_max=1)
    program.resume()
    assert [type(request) for request in to_the_end(program)] == [BackwardDone, StepDone, ReportDone, SaveAsked]


def test_workers_take_turns_in_one_process_without_seeing_each_other(world: World) -> None:
    world.script(
        """
        import numpy as np, sys, weft
        worker = weft.join(arrays={"w": np.zeros(1)}, optimizer=weft.SGD(lr=1.0))
        assert sys.modules["__main__"].worker is worker and __name__ == "__main__"
        rank = worker.rank
        worker.step({"w": np.ones(1)}, samples=rank)
        worker.report(rank=rank, draw=np.random.rand())
        assert sys.modules["__main__"].rank == rank
        """,
        num_workers=3,
    )
    rounds = [[program.resume() for program in world.programs] for _ in range(5)]
    assert rounds[1] == [BackwardDone(0.0), BackwardDone(1.0), BackwardDone(2.0)]
    assert [request.numbers["rank"] for request in rounds[3]] == [0, 1, 2]
    assert len({request.numbers["draw"] for request in rounds[3]}) == 3
    assert rounds[4] == [None, None, None]


def test_a_script_sees_its_own_arguments_and_file(world: World) -> None:
    program = world.script("import sys; print(__name__, sys.argv[1:], __file__ == sys.argv[0])")
    assert program.resume() is None
    assert world.shown == ["__main__ ['--fast'] True"]


@pytest.mark.parametrize("text", ["import sys; sys.exit()", "import sys; sys.exit(0)", "pass"])
def test_leaving_with_no_error_ends_a_script(world: World, text: str) -> None:
    assert world.script(text).resume() is None


@pytest.mark.parametrize(("code", "told"), [("3", "the script called sys.exit(3)"), ("'no data'", "no data")])
def test_leaving_with_an_error_is_an_error(world: World, code: str, told: str) -> None:
    program = world.script(f"import sys; sys.exit({code})")
    with pytest.raises(ScriptLeft) as caught:
        program.resume()
    assert str(caught.value) == told


def test_what_a_script_raises_comes_out(world: World) -> None:
    program = world.script("1 / 0")
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        program.resume()


def test_joining_twice_is_refused(world: World) -> None:
    program = world.script(
        """
        import numpy as np, weft
        for _ in range(2):
            weft.join(arrays={"w": np.zeros(1)}, optimizer=weft.SGD(lr=1.0))
        """
    )
    program.resume()
    with pytest.raises(ConfigError) as refused:
        program.resume()
    assert str(refused.value) == TWICE


def test_what_is_loaded_once_is_loaded_by_the_first_worker_for_all(world: World) -> None:
    world.script(
        """
        import numpy as np, weft

        def load(size):
            return [size] * size

        weft.join(arrays={"w": np.zeros(1)}, optimizer=weft.SGD(lr=1.0))
        data = weft.once(load, 3)
        other = weft.once(load, 4)
        """,
        num_workers=2,
    )
    mains = []
    for program in world.programs:
        program.resume()
        program.resume()
        mains.append(world.stage.enter(world.programs.index(program), world.seats[0], lambda: sys.modules["__main__"]))
    assert mains[0] is not mains[1]
    assert mains[0].data == [3, 3, 3]
    assert mains[0].data is mains[1].data
    assert mains[0].other == [4, 4, 4, 4]


def test_a_reported_callable_is_run_as_its_worker(world: World) -> None:
    program = world.script(
        """
        import numpy as np, weft
        worker = weft.join(arrays={"w": np.zeros(1)}, optimizer=weft.SGD(lr=1.0))
        print("reports")
        worker.report(rank=lambda: print("evaluates") or worker.rank + 10)
        """
    )
    program.resume()
    request = program.resume()
    function: Callable[[], Any] = request.numbers["rank"]
    program.follow(ScriptState(IN_REPORT))
    assert program.evaluate(function) == 10.0
    assert world.shown == ["reports", "evaluates"]


def test_a_reported_callable_that_raises_loses_its_node(world: World) -> None:
    program = world.script("pass")
    program.follow(ScriptState(IN_REPORT))
    message = r"^worker 0 raised ZeroDivisionError in a reported callable: division by zero$"
    with pytest.raises(NodeLost, match=message) as caught:
        program.evaluate(lambda: 1 / 0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_reported_callable_that_weft_refuses_is_refused_as_it_is(world: World) -> None:
    def refuses() -> float:
        raise ConfigError("not so.")

    program = world.script("pass")
    program.follow(ScriptState(IN_REPORT))
    with pytest.raises(ConfigError, match=r"^not so.$"):
        program.evaluate(refuses)


def test_a_loop_of_the_scripts_own_ends_when_the_run_has_fewer_steps(world: World) -> None:
    program = world.script(
        """
        import numpy as np, weft
        worker = weft.join(arrays={"w": np.zeros(1)}, optimizer=weft.SGD(lr=1.0))
        while True:
            worker.step({"w": np.ones(1)}, samples=1)
        """,
        steps_max=2,
    )
    program.resume()
    assert to_the_end(program) == [BackwardDone(1.0), StepDone(1.0, None)] * 2


def test_a_script_edited_in_the_same_second_is_run_as_it_is_now(world: World) -> None:
    for word in ("one", "two"):
        assert world.script(f"print('{word}')").resume() is None
    assert world.shown == ["one", "two"]


def test_an_abandoned_script_runs_its_finally_blocks_and_has_ended(world: World) -> None:
    program = world.script(
        """
        import numpy as np, weft
        try:
            weft.join(arrays={"w": np.zeros(1)}, optimizer=weft.SGD(lr=1.0))
        finally:
            print("closed")
        """
    )
    program.resume()
    program.abandon()
    program.abandon()
    assert world.shown == ["closed"]
    assert program.resume() is None


def test_a_call_in_a_reported_function_is_refused_and_the_script_stands_where_it_stood(world: World) -> None:
    program = world.script(
        """
        import numpy as np, weft
        worker = weft.join(arrays={"w": np.zeros(1)}, optimizer=weft.SGD(lr=1.0))
        worker.report(a=lambda: worker.report(b=1.0) or 1.0, c=lambda: 7.0)
        """
    )
    program.resume()
    request, script = program.resume(), ScriptState(IN_REPORT)
    program.follow(script)
    with pytest.raises(IllegalCall) as refused:
        program.evaluate(request.numbers["a"])
    assert str(refused.value) == str(refusal(EVALUATING, REPORT))
    assert program.evaluate(request.numbers["c"]) == 7.0
    assert script.at is IN_REPORT


def test_a_script_that_never_began_can_be_abandoned(world: World) -> None:
    program = world.script("print('never')")
    program.abandon()
    assert program.resume() is None
    assert world.shown == []


def dealt(program: ScriptProgram, *portions: int | None) -> list[Any]:
    """All requests after joining, when the shares are handed these portions."""
    asked, handed = [], list(portions)
    while (request := program.resume()) is not None:
        asked.append(request)
        if isinstance(request, PortionWanted):
            request.portion = handed.pop(0)
    return asked


def test_a_share_asks_for_each_portion_where_the_strategy_deals_them(world: World) -> None:
    program = world.script(TRAINING, num_workers=2)
    program.resume()
    world.seats[0].deals_portions = True
    assert dealt(program, 1, None, None) == [
        PortionWanted(0, 2, 1),
        BackwardDone(3.0),
        StepDone(3.0, 0.25),
        PortionWanted(0, 2, None),
        ReportDone(0, {"loss": 1.5}),
        PortionWanted(1, 2, None),
        ReportDone(1, {"loss": 1.5}),
        SaveAsked("model.safetensors", "result"),
    ]


def test_a_share_asks_for_no_portion_when_the_run_has_made_its_steps(world: World) -> None:
    program = world.script(TRAINING, num_workers=2, steps_max=1)
    program.resume()
    world.seats[0].deals_portions = True
    asked = dealt(program, 1)
    assert [request for request in asked if isinstance(request, PortionWanted)] == [PortionWanted(0, 2, 1)]
    assert asked[-2:] == [ReportDone(0, {"loss": 1.5}), SaveAsked("model.safetensors", "result")]


def test_shares_are_dealt_beforehand_unless_the_strategy_deals_portions(world: World) -> None:
    world.script(TRAINING)
    assert world.seats[0].portions(3, 9) is None
