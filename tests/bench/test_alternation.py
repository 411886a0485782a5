"""Rounds of short blocks."""

from itertools import pairwise

import pytest

from weft.bench.alternation import alternate, settle


class Steady:
    """A contender that always takes the same time, and writes down when it ran."""

    def __init__(self, name: str, seconds: float, ran: list[tuple[str, int]]) -> None:
        self.name, self.seconds, self.ran = name, seconds, ran

    def block(self, repeats: int) -> float:
        self.ran.append((self.name, repeats))
        return self.seconds


def run(seed: int) -> tuple[dict[str, list[float]], list[str]]:
    ran: list[tuple[str, int]] = []
    contenders = {name: Steady(name, seconds, ran) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 3.0))}
    return alternate(contenders, 10, 1.0, seed), [name for name, _ in ran[6:]]


def test_every_round_has_a_block_of_each_contender() -> None:
    seconds, order = run(0)
    assert seconds == {"a": [1.0] * 10, "b": [2.0] * 10, "c": [3.0] * 10}
    rounds = [order[i : i + 3] for i in range(0, 30, 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert any(one != other for one, other in pairwise(rounds))


def test_the_seed_fixes_the_orders() -> None:
    assert run(0) == run(0)
    assert run(0) != run(1)


@pytest.mark.parametrize(
    ("seconds", "tried", "settled"),
    [(1e-3, [1, 1, 4, 16, 64], 200), (0.06, [1, 1], 3), (5.0, [1, 1], 1)],
    ids=["short work", "longer work", "longer than a block"],
)
def test_a_block_gets_as_many_repetitions_as_fill_it(seconds: float, tried: list[int], settled: int) -> None:
    ran: list[tuple[str, int]] = []
    assert settle(Steady("a", seconds, ran), 0.2) == settled
    assert [repeats for _, repeats in ran] == tried


def test_a_slow_first_repetition_does_not_make_blocks_shorter() -> None:
    class Cold(Steady):
        def block(self, repeats: int) -> float:
            return super().block(repeats) * (1 if len(self.ran) > 1 else 10)

    assert settle(Cold("a", 0.06, []), 0.2) == 3
