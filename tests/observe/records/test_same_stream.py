"""Workers that take turns at a stream must read the same one."""

import pytest

from weft.core.errors import ConfigError
from weft.observe.records.same_stream import SameStream


def test_workers_that_read_different_streams_are_refused_and_named() -> None:
    same = SameStream()
    for rank, digest in [(1, None), (2, "a"), (2, "a"), (0, "a"), (1, None)]:
        same.hear(rank, digest)
    with pytest.raises(ConfigError) as refused:
        same.hear(1, "b")
    assert str(refused.value) == (
        "workers 1 and 2 read different streams, but worker.share lets all workers take turns at one: samples would be "
        "lost.\n"
        "  If each worker reads a part of its own, say worker.share(stream, sharded=True). Else let the stream draw "
        "from torch's, numpy's or Python's own random numbers, or from a generator with a fixed seed."
    )
