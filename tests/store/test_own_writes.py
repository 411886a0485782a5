"""Writes of a script to parameters that come from elsewhere are found, also those that are taken back."""

import numpy as np
import pytest

from weft.adapters.array_replica import ArrayReplica
from weft.core.errors import ConfigError
from weft.core.names import PARAMS
from weft.core.rules import SGD
from weft.store.own_writes import OwnWrites, same_bytes


def watched() -> tuple[np.ndarray, OwnWrites]:
    replica = ArrayReplica({"w": np.zeros(3), "b": np.zeros(2)}, SGD(lr=1.0), None)
    writes = OwnWrites(replica, "ssp")
    writes.begin()
    return replica.array(PARAMS, 0), writes


def is_refused(writes: OwnWrites) -> bool:
    try:
        writes.refuse()
    except ConfigError:
        return True
    return False


def test_bytes_are_compared_so_that_a_nan_equals_itself() -> None:
    one = np.array([1.0, np.nan])
    assert same_bytes(one, one.copy())
    assert not same_bytes(np.array([0.0]), np.array([-0.0]))


def test_a_write_is_refused_with_the_name_of_its_tensor() -> None:
    params, writes = watched()
    writes.refuse()
    params[4] = 1.0
    with pytest.raises(ConfigError) as refused:
        writes.refuse()
    assert str(refused.value) == (
        "the script wrote to 'b' between two steps, but under 'ssp' parameters come from elsewhere, and what it wrote "
        "would be lost.\n  Use allreduce, local_sgd or gossip, which keep such writes, or write before weft.join."
    )


def test_what_is_taken_back_before_the_step_is_no_objection() -> None:
    params, writes = watched()
    params[0] = 1.0
    writes.look()
    writes.begin()
    params[0] = 0.0
    assert not is_refused(writes)


def test_what_a_protocol_writes_meanwhile_is_no_objection() -> None:
    params, writes = watched()
    writes.look()
    params[:] = 5.0
    writes.begin()
    assert not is_refused(writes)
