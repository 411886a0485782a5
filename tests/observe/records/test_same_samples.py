"""Workers that compute on the same samples are named, once."""

from weft.observe.records.same_samples import SameSamples

ADVICE = (
    " compute on the same samples: their first gradients are equal. A generator with a fixed seed draws alike on every "
    "worker: seed it with the rank, too, as in np.random.default_rng([0, worker.rank]), or take batches from "
    "worker.share(...)"
)


def told(*digests: str | None) -> list[str]:
    """What is said when workers tell these, each of them twice."""
    same = SameSamples(len(digests))
    said = [same.hear(rank, digest) for _ in range(2) for rank, digest in enumerate(digests)]
    return [text for text in said if text is not None]


def test_workers_with_equal_first_gradients_are_named_once() -> None:
    assert told("a", "a", "a") == [f"all 3 workers{ADVICE}"]
    assert told("a", "b", "a", "c", "b") == [f"workers 0, 2 and workers 1, 4{ADVICE}"]


def test_nothing_is_said_of_others_nor_before_all_have_told() -> None:
    assert told("a", "b", "c") == []
    assert told("a", "a", None) == []
