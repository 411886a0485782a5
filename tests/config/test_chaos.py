"""What users write to let faults happen."""

import pytest

from weft.config.chaos import KILL, NAN, STOP_PROCESS, ChaosDraws, ChaosPlan, read_chaos
from weft.core.errors import ConfigError


def test_a_plan_says_what_how_often_and_by_which_seed() -> None:
    assert read_chaos("kill every 15s seed 7", "run.chaos") == ChaosPlan(KILL, 15.0, 7)
    assert read_chaos(" stop  every 500ms ", "run.chaos") == ChaosPlan(STOP_PROCESS, 0.5, 0)
    assert read_chaos("nan every 60s", "run.chaos") == ChaosPlan(NAN, 60.0, 0)
    assert read_chaos("kill every 5m", "run.chaos") == ChaosPlan(KILL, 300.0, 0)
    assert read_chaos("kill every 0.5h seed 1", "run.chaos") == ChaosPlan(KILL, 1800.0, 1)


def test_a_plan_says_why_a_run_that_ends_with_a_loss_is_no_place_for_it() -> None:
    assert ChaosPlan(KILL, 1.0).would == "kill workers, and with --on-loss stop the first loss ends the run"
    assert ChaosPlan(NAN, 1.0).would.startswith("spoil the gradients of workers, and with --on-loss stop these go on")


EXAMPLE = "Write e.g. 'kill every 15s seed 7'."
KIND = "wants what happens first: kill, stop or nan."
AFTER = "wants how often after 'kill': every and an interval."
SEED = "wants nothing after the interval but seed and a whole number."


@pytest.mark.parametrize(
    ("text", "wanted", "hint"),
    [
        ("", KIND, EXAMPLE),
        ("kil every 3s", KIND, "Did you mean 'kill'?"),
        ("burn every 3s", KIND, EXAMPLE),
        ("kill", AFTER, EXAMPLE),
        ("kill every", AFTER, EXAMPLE),
        ("kill each 3s", AFTER, EXAMPLE),
        ("kill every 0s", "the interval must be above 0.", EXAMPLE),
        ("kill every 3s seed x", SEED, EXAMPLE),
        ("kill every 3s seed -1", SEED, EXAMPLE),
        ("kill every 3s seed", SEED, EXAMPLE),
        ("kill every 3s now", SEED, EXAMPLE),
        ("kill every 3s seed 1 2", SEED, EXAMPLE),
    ],
)
def test_other_words_are_refused_by_what_is_wrong_with_them(text: str, wanted: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_chaos(text, "--chaos")
    assert str(refused.value) == f"--chaos is '{text}', but {wanted}\n  {hint}"


def test_a_unit_is_needed() -> None:
    with pytest.raises(ConfigError) as refused:
        read_chaos("kill every 15", "--chaos")
    assert str(refused.value) == (
        "the interval of --chaos is '15', but wants a number with one of the units s, ms, us, ns, m, h.\n"
        '  Write e.g. "15s".'
    )


def test_moments_and_victims_follow_from_the_seed() -> None:
    def drawn(seed: int) -> list[tuple[float, int]]:
        draws = ChaosDraws(ChaosPlan(KILL, 10.0, seed))
        return [(draws.next_s(100.0), draws.victim([1, 3, 5])) for _ in range(40)]

    first = drawn(1)
    assert first == drawn(1) != drawn(2)
    assert all(105.0 <= due_s <= 115.0 for due_s, _ in first)
    assert {victim for _, victim in first} == {1, 3, 5}
