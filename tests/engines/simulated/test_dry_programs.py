"""Scripts without maths: how many steps they make, on how many samples."""

from pathlib import Path
from typing import Any

import pytest
from support.scripts.training_scripts import write

from weft.config.cluster import load_cluster
from weft.config.registry import strategy
from weft.core.errors import ConfigError
from weft.engines.simulated.dry_programs import ghosts, num_samples, num_steps
from weft.engines.simulated.job import SimulatedJob
from weft.sim.program import PortionWanted, StepDone
from weft.sim.script import ScriptPlan
from weft.sim.shares import VirtualShares

PLAN = ScriptPlan(num_epochs=2, num_samples=26, batch_size=4, drop_last=False)
ENDLESS = ScriptPlan(num_epochs=None, num_samples=26, batch_size=4, drop_last=False)


def job(folder: Path, **options: Any) -> SimulatedJob:
    return SimulatedJob(
        script=write(folder, "1 / 0\n"), arguments=(), cluster=load_cluster("rack"), num_workers=3, **options
    )


def steps(asked: SimulatedJob, plan: ScriptPlan | None, text: str = "allreduce") -> list[list[float]]:
    """The samples of each worker's steps, when all take turns."""
    shares = VirtualShares(3, asked.sharing)
    programs = ghosts(asked, strategy(text), plan, 7.0, shares)
    made: list[list[float]] = [[] for _ in programs]
    portion, alive = 0, set(range(3))
    while alive:
        for rank in sorted(alive):
            request = programs[rank].resume()
            if isinstance(request, PortionWanted):
                request.portion, portion = (portion, portion + 1) if portion < request.num_portions else (None, portion)
            if isinstance(request, StepDone):
                made[rank].append(request.samples)
            if request is None:
                alive.remove(rank)
    return made


def test_static_ghosts_make_the_even_steps_of_every_epoch(tmp_path: Path) -> None:
    assert steps(job(tmp_path), PLAN) == [[4, 4, 4, 4], [4, 5, 4, 5], [4, 5, 4, 5]]
    assert num_steps(job(tmp_path), strategy("allreduce"), PLAN) == 12


@pytest.mark.parametrize("text", ["allreduce", "async_gossip"])
def test_proportional_ghosts_make_as_many_steps_as_static_ones(tmp_path: Path, text: str) -> None:
    asked = job(tmp_path, share="proportional")
    assert [len(made) for made in steps(asked, PLAN, text)] == [4, 4, 4]
    assert sum(map(sum, steps(asked, PLAN, text))) == 52
    assert num_steps(asked, strategy(text), PLAN) == 12


def test_ghosts_that_steal_make_one_step_for_each_portion(tmp_path: Path) -> None:
    asked = job(tmp_path, share="stealing")
    made = steps(asked, PLAN, "async_gossip")
    assert sorted(samples for each in made for samples in each) == [2, 2] + [4] * 12
    assert num_steps(asked, strategy("async_gossip"), PLAN) == 14


def test_a_strategy_that_deals_portions_has_ghosts_that_ask_it(tmp_path: Path) -> None:
    assert sum(map(sum, steps(job(tmp_path), ScriptPlan(1, 26, 4, False), "sandblaster"))) == 26
    assert num_steps(job(tmp_path), strategy("sandblaster"), PLAN) == 14


@pytest.mark.parametrize("share", ["static", "proportional", "stealing"])
@pytest.mark.parametrize("plan", [PLAN, ENDLESS])
def test_all_make_as_many_steps_as_the_run_says(tmp_path: Path, plan: ScriptPlan, share: str) -> None:
    asked = job(tmp_path, share=share, steps_max=9)
    assert [len(made) for made in steps(asked, plan, "async_gossip")] == [9, 9, 9]
    assert num_steps(asked, strategy("async_gossip"), plan) == 27


def test_a_script_that_shares_nothing_has_the_samples_of_its_first_step(tmp_path: Path) -> None:
    assert steps(job(tmp_path, steps_max=2, share="proportional"), None) == [[7, 7]] * 3


@pytest.mark.parametrize("plan", [None, ENDLESS])
def test_a_dry_run_without_an_end_is_refused(tmp_path: Path, plan: ScriptPlan | None) -> None:
    with pytest.raises(ConfigError) as refused:
        ghosts(job(tmp_path), strategy("allreduce"), plan, 7.0, VirtualShares(3))
    assert str(refused.value) == (
        "a dry run cannot know how long the script would train.\n"
        "  Add --steps 100, or use worker.epochs(...) and worker.share(...) in the script."
    )


def test_all_samples_are_known_unless_a_number_of_steps_ends_the_run(tmp_path: Path) -> None:
    assert num_samples(job(tmp_path), strategy("allreduce"), PLAN) == 52
    assert num_samples(job(tmp_path), strategy("sandblaster"), PLAN) == 52
    assert num_samples(job(tmp_path), strategy("allreduce"), ENDLESS) is None
    assert num_samples(job(tmp_path, steps_max=3), strategy("allreduce"), PLAN) is None
