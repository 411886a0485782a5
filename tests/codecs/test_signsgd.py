"""signSGD."""

import numpy as np

from weft.codecs import Form, SignSGD, Turn
from weft.core.names import Carries


def test_the_sum_of_payloads_is_a_vote() -> None:
    workers, votes = [[1.0, -3.0, 0.0], [2.0, 5.0, -1.0], [9.0, -1.0, -1.0]], np.zeros(3, np.float32)
    for values in workers:
        payload = SignSGD().encode(np.array(values, np.float32), None, Form(3), Turn()).payload
        assert len(payload) == 1
        SignSGD().add(payload, votes, 1.0, Form(3))
    assert votes.tolist() == [3, -1, -1]


def test_it_votes_on_gradients_only_and_needs_no_feedback() -> None:
    assert SignSGD.votes
    assert SignSGD.carries == {Carries.GRADIENT}
    assert not SignSGD().wants_feedback
