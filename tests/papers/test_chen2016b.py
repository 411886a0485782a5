"""Chen et al. 2016, "Revisiting Distributed Synchronous SGD": synchronous steps with backup workers."""

from support.simulated.problems import SIZES, LeastSquares
from support.simulated.weather import storm

from weft.core.actions import Note
from weft.core.rules import SGD
from weft.sim.compute import Trace
from weft.strategies import ParameterServer, Quorum
from weft.testing.worlds import Ran, simulate_arrays

HICCUPS = Trace([[1.0, 1.0, 1.0, 9.0], [1.0, 9.0, 1.0, 1.0], [1.0], [1.0], [1.0]])
HOSTS = (0, 1, 2, 3, 4, 5)


def run(recipe: Quorum | ParameterServer) -> Ran:
    return simulate_arrays(recipe, 5, num_steps=24, compute=HICCUPS, hosts=HOSTS)


def test_backup_workers_hide_the_stragglers_of_a_step() -> None:
    waiting, two = run(ParameterServer()), run(Quorum(backups=2))
    steady = sorted(two.facts.finished_s)[:3]
    assert max(steady) < 24 * 1.1
    assert waiting.facts.virtual_s > 24 * 3


def test_no_gradient_is_stale_and_what_is_dropped_is_counted() -> None:
    ran = run(Quorum(backups=2))
    assert ran.facts.staleness_max == 0.0
    dropped = sum(
        action.value
        for *_, actions in ran.recording.entries
        for action in actions
        if isinstance(action, Note) and action.name == "dropped"
    )
    assert dropped >= 1
    assert ran.facts.staleness_count + dropped == 5 * 24


def test_without_backups_it_waits_for_all() -> None:
    assert run(Quorum(backups=0)).facts.virtual_s == run(ParameterServer()).facts.virtual_s


def test_it_converges_in_any_weather() -> None:
    problem = LeastSquares(SIZES[:6])
    ran = simulate_arrays(
        Quorum(backups=2, servers=2),
        6,
        problem.gradient,
        num_steps=60,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=SGD(0.1),
        **storm(6, 4),
    )
    assert problem.loss(ran.result[0]) < 0.05 * problem.loss(problem.start)
