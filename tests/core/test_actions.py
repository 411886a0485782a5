"""The commands a peer answers with."""

import pickle
from typing import get_args

from weft.core.actions import INNER, OPS, Action, Apply, Combine, Compute, Note, Send, add, copy, rescale
from weft.core.names import Buffer

A, B = Buffer("a", 0), Buffer("b", 0)


def test_actions_with_the_same_values_are_equal() -> None:
    assert Send(1, "push", 3, 0, A) == Send(1, "push", 3, 0, A, 1.0, None)
    assert Send(1, "push", 3, 0, A) != Send(1, "push", 4, 0, A)
    assert Compute(1) != Note("1", 1.0)


def test_an_update_runs_the_users_optimizer_at_its_own_rate_unless_told_otherwise() -> None:
    assert Apply(A, B) == Apply(A, B, INNER, 1.0)


def test_copying_adding_and_rescaling_are_all_combinations() -> None:
    assert copy(A, B) == Combine(A, 0.0, B, 1.0, None)
    assert add(A, B) == Combine(A, 1.0, B, 1.0, None)
    assert add(A, B, -0.5) == Combine(A, 1.0, B, -0.5, None)
    assert rescale(A, 0.25) == Combine(A, 0.25, None, 1.0, None)


def test_reductions_know_three_operations() -> None:
    assert OPS == ("mean", "sum", "max")


def test_there_are_eight_actions_and_each_is_a_command() -> None:
    names = [action.__name__ for action in get_args(Action)]
    assert names == ["Compute", "Send", "Reduce", "Combine", "Apply", "SetTimer", "Note", "Stop"]


def test_actions_travel_between_processes() -> None:
    action = Send(1, "push", 3, 0, A, data={"a": 1})
    assert pickle.loads(pickle.dumps(action)) == action
