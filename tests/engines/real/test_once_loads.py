"""What is loaded once on each host."""

from weft.engines.real.once_loads import Loadings
from weft.runtime.messages import OnceAnswer, OnceAsked, OnceLoaded


def test_the_first_worker_of_each_host_loads_and_the_others_of_its_host_share_its_value() -> None:
    sent: list[tuple[int, OnceAnswer]] = []
    loadings = Loadings([0, 0, 1, 1], lambda *said: sent.append(said))
    for rank in range(4):
        loadings.ask(rank, OnceAsked("data"))
    assert sent == [(0, OnceAnswer(0, None)), (2, OnceAnswer(0, None))]
    loadings.take(2, OnceLoaded("data", b"there", 64))
    assert sent[2:] == [(3, OnceAnswer(0, b"there"))]
    loadings.take(0, OnceLoaded("data", b"here", 128))
    assert sent[3:] == [(1, OnceAnswer(0, b"here"))]
    loadings.ask(1, OnceAsked("more"))
    loadings.ask(3, OnceAsked("more"))
    assert sent[4:] == [(1, OnceAnswer(128, None)), (3, OnceAnswer(64, None))]


def test_a_value_that_cannot_be_shared_is_loaded_by_everybody() -> None:
    sent: list[tuple[int, OnceAnswer]] = []
    loadings = Loadings([0, 0], lambda *said: sent.append(said))
    loadings.ask(0, OnceAsked("data"))
    loadings.ask(1, OnceAsked("data"))
    loadings.take(0, OnceLoaded("data", b"", 0))
    assert sent == [(0, OnceAnswer(0, None)), (1, OnceAnswer(0, b""))]


def test_what_a_lost_worker_was_loading_is_loaded_by_the_next_that_waits_for_it() -> None:
    sent: list[tuple[int, OnceAnswer]] = []
    loadings = Loadings([0, 0, 0], lambda *said: sent.append(said))
    for rank in range(3):
        loadings.ask(rank, OnceAsked("data"))
    loadings.lose(0)
    assert sent == [(0, OnceAnswer(0, None)), (1, OnceAnswer(0, None))]
    loadings.lose(2)
    loadings.take(1, OnceLoaded("data", b"here", 64))
    assert sent[2:] == []
    loadings.ask(1, OnceAsked("more"))
    loadings.lose(1)
    loadings.ask(2, OnceAsked("more"))
    assert sent[2:] == [(1, OnceAnswer(64, None)), (2, OnceAnswer(64, None))]
