"""Finds workers that compute on the same samples, by their first gradients: all begin with the same model."""

from collections import defaultdict


class SameSamples:
    """Hears a digest of each worker's first gradient, where its script draws its samples by itself."""

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._digests: dict[int, str] = {}

    def hear(self, rank: int, digest: str | None) -> str | None:
        """Take a worker's; what the user is to be told, once, when the last one has come."""
        if digest is None or rank in self._digests:
            return None
        self._digests[rank] = digest
        if len(self._digests) < self._num_workers:
            return None
        alike: dict[str, list[int]] = defaultdict(list)
        for worker, each in sorted(self._digests.items()):
            alike[each].append(worker)
        same = [self._named(workers) for workers in alike.values() if len(workers) > 1]
        if not same:
            return None
        return (
            f"{' and '.join(same)} compute on the same samples: their first gradients are equal. A generator with a "
            "fixed seed draws alike on every worker: seed it with the rank, too, as in "
            "np.random.default_rng([0, worker.rank]), or take batches from worker.share(...)"
        )

    def _named(self, workers: list[int]) -> str:
        if len(workers) == self._num_workers:
            return f"all {self._num_workers} workers"
        return f"workers {', '.join(map(str, workers))}"
