"""Who won and why, in two sentences."""

from typing import Any

import pytest
from support.ui.comparisons import HABITS, among, comparison, measured, setup

from weft.observe.records.comparison import Contender, Target
from weft.observe.report.words import counted, listed, number, percent, times, verdict


def ddp(*to_target_s: float | None, **figures: Any) -> Contender:
    return Contender("ddp", True, [measured(at, **figures) for at in to_target_s])


def ssp(*to_target_s: float | None, **figures: Any) -> Contender:
    return Contender("ssp", runs=[measured(at, **figures) for at in to_target_s])


def gossip(*to_target_s: float | None, **figures: Any) -> Contender:
    return Contender("gossip", runs=[measured(at, **figures) for at in to_target_s])


def test_a_clear_winner_is_compared_with_the_baseline() -> None:
    won = ssp(1.9, 2.0, 2.1, samples_to_target=1200.0, waiting=0.04, sent=3_000_000)
    assert verdict(among(ddp(5.0, 5.1, 5.2, samples_to_target=1000.0, waiting=0.6, sent=90_000_000), won)) == (
        "ssp won: it reached accuracy 0.97 in 2.0 s (1.9 s to 2.1 s over 3 seeds), 2.5 times as fast as the baseline "
        "ddp (5.1 s). Compared with ddp, it waited 4 % of the time rather than 60 %, trained on 600 samples/s on the "
        "way rather than 196 and sent 3.0 MB per worker rather than 90.0 MB, although it needed 1.2 times as many "
        "samples."
    )


def test_a_baseline_that_won_is_said_to_have_won() -> None:
    said = verdict(among(ddp(2.0, samples_to_target=1000.0), ssp(3.0, samples_to_target=1500.0, waiting=0.5)))
    assert said == (
        "The baseline ddp won: it reached accuracy 0.97 in 2.0 s with one seed; next came ssp (3.0 s, 1.5 times as "
        "long). "
        "Compared with ssp, it needed only 67 % of the samples."
    )


def test_overlapping_seeds_are_a_tie() -> None:
    said = verdict(among(ssp(1.0, 2.0, 3.0), gossip(1.5, 2.2, 2.6), ddp(9.0, 9.0, 9.0)))
    assert said.startswith(
        "ssp and gossip reached accuracy 0.97 first, about as fast as each other: ssp in 2.0 s (1.0 s to 3.0 s over 3 "
        "seeds), 4.5 times as fast as the baseline ddp (9.0 s). "
    )


def test_a_tie_with_the_baseline_has_no_winner() -> None:
    said = verdict(among(ssp(1.0, 2.0, 3.0), gossip(9.0, 9.0, 9.0), ddp(2.0, 2.1, 2.2)))
    assert said == (
        "ssp (2.0 s) and the baseline ddp (2.1 s) reached accuracy 0.97 about as fast, ahead of gossip (9.0 s, 4.5 "
        "times as long). In waiting, pace, samples needed and traffic ssp and ddp hardly differ."
    )
    assert verdict(among(ddp(2.0), ssp(2.01))).startswith(
        "The baseline ddp (2.0 s) and ssp (2.0 s) reached accuracy 0.97 about as fast with one seed. "
    )


def test_when_nobody_reached_the_target_the_final_number_ranks() -> None:
    assert verdict(among(ddp(None, final=0.9, seconds=20.0), ssp(None, final=0.95))) == (
        "Nobody reached accuracy 0.97 with one seed: ssp came closest with 0.9500, ahead of the baseline ddp with "
        "0.9000. The same samples took ssp 10.0 s and the baseline ddp 20.0 s; more epochs, or an easier target, would "
        "tell who gets there first."
    )
    assert verdict(among(ddp(None, final=0.95), ssp(None, final=0.9501))).startswith(
        "Nobody reached accuracy 0.97 with one seed: ssp and the baseline ddp came about as close, ssp with 0.9501. "
    )
    assert verdict(among(ssp(None, 2.0, final=0.95))).startswith("Nobody reached accuracy 0.97 with every seed: ssp ")
    diverged = among(Contender("ssp", runs=[measured(None, None)]))
    assert verdict(diverged).startswith(
        "Nobody reached accuracy 0.97 with one seed, and no run ended with a finite accuracy. "
    )


def test_without_a_target_speed_is_only_half_of_the_story() -> None:
    fast, exact = ssp(None, final=0.9, seconds=5.0), ddp(None, final=0.95, seconds=10.0)
    assert verdict(among(fast, exact, target=None)) == (
        "ssp won: it trained on all samples in 5.0 s with one seed, 2.0 times as fast as the baseline ddp (10.0 s). "
        "Compared with ddp, it trained on 200 samples/s rather than 100; ssp ended with accuracy 0.9000, the baseline "
        "ddp with 0.9500."
    )
    best = verdict(among(ssp(None, final=0.96, seconds=5.0), exact, target=None))
    assert best.endswith("; ssp ended with accuracy 0.9600, the best of all.")


def test_without_a_target_those_that_diverged_cannot_win_however_fast_they_were() -> None:
    wild = gossip(None, None, None, seconds=1.0)
    wild.runs[1:] = [measured(None, None, 1.0), measured(None, None, 1.0)]
    steady = ssp(None, None, None, final=0.96, seconds=5.0)
    slow = ddp(None, None, None, final=0.95, seconds=10.0)
    said = verdict(among(wild, steady, slow, target=None))
    assert said.startswith("ssp won: it trained on all samples in 5.0 s (5.0 s to 5.0 s over 3 seeds), 2.0 times as ")
    assert said.endswith("; ssp ended with accuracy 0.9600, the best of all; of gossip 2 of 3 seeds diverged.")
    assert verdict(among(wild, steady, target=None)) == (
        "ssp is the only one that trained on all samples without diverging, in 5.0 s (5.0 s to 5.0 s over 3 seeds). "
        "There is nobody to compare it with; of gossip 2 of 3 seeds diverged."
    )


def test_when_all_diverged_nobody_won() -> None:
    lost = [Contender(label, runs=[measured(None, None, seconds)]) for label, seconds in (("ssp", 1.0), ("bmuf", 9.0))]
    assert verdict(among(*lost, target=None)) == (
        "Nobody won with one seed: ssp and bmuf diverged. How long runs took that did not learn means nothing; a "
        "smaller learning rate, or a longer warm-up, may help."
    )


def test_seeds_that_diverged_do_not_count_among_those_that_came_close() -> None:
    runs = [measured(None, 0.965), measured(None, None), measured(None, None)]
    said = verdict(among(Contender("ssp", runs=runs)))
    assert said.startswith("Nobody reached accuracy 0.97: ssp came closest with 0.9650 (with 1 of 3 seeds). ")
    assert said.endswith("; of ssp 2 of 3 seeds diverged.")
    steady = gossip(None, None, None, final=0.9)
    assert verdict(among(Contender("ssp", runs=runs), steady)).startswith(
        "Nobody reached accuracy 0.97: gossip came closest with 0.9000 (0.9000 to 0.9000 over 3 seeds), ahead of ssp "
    )


def test_equal_final_numbers_are_a_tie() -> None:
    fast, slow = ssp(None, final=0.97, seconds=5.0), ddp(None, final=0.97, seconds=10.0)
    assert verdict(among(fast, slow, target=None)).endswith(
        "; ssp ended with accuracy 0.9700, about the same as the baseline ddp."
    )


def test_a_small_lead_counts_from_three_seeds_on_and_never_in_simulation() -> None:
    assert " about as fast with one seed. " in verdict(among(ddp(2.2), ssp(2.0)))
    assert " won: it " in verdict(among(ddp(2.2, 2.2, 2.2), ssp(2.0, 2.0, 2.0)))
    simulated = among(gossip(2.2, 2.2, 2.2), ssp(2.0, 2.0, 2.0))
    simulated.setup = setup(3, Target("accuracy", 0.97), "edge")
    assert verdict(simulated).startswith(
        "ssp (2.0 s) and gossip (2.2 s) reached accuracy 0.97 about as fast in simulation. "
    )
    simulated.contenders[0] = gossip(2.4, 2.4, 2.4)
    assert verdict(simulated).startswith(
        "ssp won: it reached accuracy 0.97 in 2.0 s (2.0 s to 2.0 s over 3 seeds) in simulation, 1.2 times as fast as "
    )


def test_a_baseline_that_never_reached_the_target_is_named() -> None:
    others = ssp(2.0, 2.0), gossip(9.0, 9.0)
    assert verdict(among(*others, ddp(None, None))).endswith("; the baseline ddp never reached it.")
    assert verdict(among(*others, ddp(None, 8.0))).endswith("; the baseline ddp reached it with 1 of 2 seeds.")
    assert verdict(among(ssp(2.0), ddp(None, final=0.9))).endswith(" The baseline ddp ended with 0.9000.")


def test_the_only_one_to_get_there_is_said_to_be_alone() -> None:
    assert verdict(among(ssp(2.0), gossip(None, final=0.9))) == (
        "ssp is the only one that reached accuracy 0.97, in 2.0 s with one seed. gossip ended with 0.9000."
    )
    assert verdict(among(ddp(2.0))).endswith(" There is nobody to compare it with.")


def test_those_that_failed_are_named() -> None:
    failed = Contender("easgd", error="NodeLost: worker 1 died.\n  Look there.")
    assert verdict(among(ssp(2.0), gossip(4.0, samples_to_target=10.0), failed)).endswith("; easgd failed.")
    assert verdict(among(failed)) == "Nobody won: easgd failed. The first error was: NodeLost: worker 1 died."
    assert verdict(among(Contender("ssp"))) == "No contender has run yet. There is nothing to compare."


def test_what_is_not_known_of_the_other_is_said() -> None:
    assert " it waited 4 % of the time (of ddp it is not known)" in verdict(among(ddp(5.0), ssp(2.0, waiting=0.04)))


@pytest.mark.parametrize("habits", [HABITS, HABITS[:1], HABITS[1:3], HABITS[4:]])
@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("target", [None, 0.9, 0.97, 0.9999])
def test_a_verdict_has_two_sentences(habits: tuple[object, ...], seeds: int, target: float | None) -> None:
    said = verdict(comparison(habits, seeds, target, failed=()))  # type: ignore[arg-type]
    assert said.count(". ") == 1
    assert said.endswith(".")


def test_lists_are_short() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert [counted(1, "seed"), counted(3, "seed")] == ["1 seed", "3 seeds"]
    assert listed(["a", "b", "c", "d", "e"]) == "a, b and 3 more"


def test_numbers_are_as_precise_as_readers_need() -> None:
    assert [number(0.97), number(123.456), number(1e-5)] == ["0.9700", "123.5", "1e-05"]
    assert [times(2.44), times(12.3), percent(0.614)] == ["2.4 times", "12 times", "61 %"]
