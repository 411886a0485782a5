"""A trained parameter and its gradients' places."""

import numpy as np
import torch
from torch import nn

from weft.adapters.torch.trained import Trained


def trained() -> tuple[Trained, np.ndarray]:
    place, memory = Trained(0, nn.Parameter(torch.zeros(2)), 0), np.zeros(3, np.float32)
    place.given = place.seen = torch.from_numpy(memory)[:2]
    place.given_flags = place.seen_flags = memory
    place.flag = 2
    return place, memory


def test_a_gradient_is_given_with_its_flag_and_exposed_where_there_is_one() -> None:
    place, memory = trained()
    place.parameter.grad = torch.tensor([3.0, 4.0])
    place.give()
    assert memory.tolist() == [3.0, 4.0, 1.0]
    place.expose()
    assert place.parameter.grad is place.seen
    place.parameter.grad = None
    place.give()
    place.expose()
    assert (memory.tolist(), place.parameter.grad) == ([0.0, 0.0, 0.0], None)


def test_a_gradient_that_is_not_wanted_in_this_step_stays_the_scripts() -> None:
    for leave_out in (Trained.give_nothing, Trained.keep_nothing):
        place, memory = trained()
        place.parameter.grad = torch.tensor([3.0, 4.0])
        place.give()
        place.expose()
        leave_out(place)
        assert memory.tolist() == [0.0, 0.0, 0.0]
        assert place.parameter.grad.tolist() == [3.0, 4.0]
