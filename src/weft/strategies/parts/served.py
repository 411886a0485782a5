"""A worker whose trained buckets are the servers': a newcomer is given those by them, and all others by its sponsor."""

from weft.core.names import Buffer
from weft.core.peer import Peer


class ServedWorker(Peer):
    """As a sponsor, gives only what no server has: buckets that are not trained (BatchNorm's means)."""

    def given(self) -> list[Buffer]:
        return [params for bucket, params in enumerate(self.world.params) if bucket not in self.world.trainable]
