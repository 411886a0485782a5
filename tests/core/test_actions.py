"""The commands a peer answers with."""

import pickle
from typing import Any, get_args

import pytest

from weft.core.actions import (
    INNER,
    OPS,
    Action,
    Apply,
    Combine,
    Compute,
    Note,
    Send,
    add,
    check_send,
    check_stepped,
    copy,
    is_same_message,
    is_same_update,
    rescale,
    updates_from,
)
from weft.core.errors import IllegalAction
from weft.core.events import DATA_BYTES_MAX
from weft.core.names import Buffer

A, B = Buffer("a", 0), Buffer("b", 0)


def test_actions_with_the_same_values_are_equal() -> None:
    assert Send(1, "push", 3, 0, A) == Send(1, "push", 3, 0, A, 1.0, None)
    assert Send(1, "push", 3, 0, A) != Send(1, "push", 4, 0, A)
    assert Compute(1) != Note("1", 1.0)


def test_an_iteration_takes_no_portion_unless_one_is_named() -> None:
    assert Compute(1) == Compute(1, None) != Compute(1, 0)


def test_an_update_runs_the_users_optimizer_at_its_own_rate_unless_told_otherwise() -> None:
    assert Apply(A, B) == Apply(A, B, INNER, 1.0)


def test_copying_adding_and_rescaling_are_all_combinations() -> None:
    assert copy(A, B) == Combine(A, 0.0, B, 1.0, None)
    assert add(A, B) == Combine(A, 1.0, B, 1.0, None)
    assert add(A, B, -0.5) == Combine(A, 1.0, B, -0.5, None)
    assert rescale(A, 0.25) == Combine(A, 0.25, None, 1.0, None)


def test_reductions_know_three_operations() -> None:
    assert OPS == ("mean", "sum", "max")


def test_there_are_nine_actions_and_each_is_a_command() -> None:
    names = [action.__name__ for action in get_args(Action)]
    assert names == ["Compute", "Send", "Reduce", "Combine", "Encode", "Apply", "SetTimer", "Note", "Stop"]


def test_actions_travel_between_processes() -> None:
    action = Send(1, "push", 3, 0, A, data={"a": 1})
    assert pickle.loads(pickle.dumps(action)) == action


def test_messages_that_differ_in_their_target_only_are_the_same_message() -> None:
    kind, data = "push", {"a": 1}
    first = Send(1, kind, 3, 0, A, data=data)
    assert is_same_message(first, Send(2, kind, 3, 0, A, data=data))
    others = [
        Send(2, kind, 3, 0, B, data=data),
        Send(2, "pull", 3, 0, A, data=data),
        Send(2, kind, 4, 0, A, data=data),
        Send(2, kind, 3, 1, A, data=data),
        Send(2, kind, 3, 0, A, 0.5, data),
        Send(2, kind, 3, 0, A),
    ]
    assert not any(is_same_message(first, other) for other in others)


def of_bucket(bucket: int, gradient: str = "gradient", into: str = "params", **options: Any) -> Apply:
    return Apply(Buffer(gradient, bucket), Buffer(into, bucket), **options)


def test_updates_of_other_buckets_that_follow_go_together() -> None:
    first = of_bucket(0)
    assert is_same_update(first, of_bucket(1))
    others = [of_bucket(1, "mine"), of_bucket(1, into="mine"), of_bucket(1, rule="slow"), of_bucket(1, scale=0.5)]
    for other in others:
        assert not is_same_update(first, other)
        assert updates_from([first, of_bucket(2), other, of_bucket(3)], 0) == [first, of_bucket(2)]


def test_an_update_that_comes_after_anything_else_is_made_later() -> None:
    actions: list[Action] = [Compute(1), of_bucket(0), of_bucket(1), add(A, B), of_bucket(2)]
    assert updates_from(actions, 1) == [of_bucket(0), of_bucket(1)]
    assert updates_from(actions, 2) == [of_bucket(1)]
    assert updates_from(actions, 4) == [of_bucket(2)]


def test_a_message_of_a_declared_kind_to_a_node_of_the_world_may_be_sent() -> None:
    assert check_send(Send(2, "push", 0, 0, data={"a": 1}), {"push", "pull"}, 3) is None


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (Send(1, "shove", 0, 0), "{action} is not of a declared kind (pull, push)."),
        (Send(3, "push", 0, 0), "{action} goes to a node that is not of the world (0 to 2)."),
        (Send(-1, "push", 0, 0), "{action} goes to a node that is not of the world (0 to 2)."),
        (
            Send(1, "push", 0, 0, data={"text": "x" * DATA_BYTES_MAX}),
            "'push' carries more than 4096 bytes of data; use its body.",
        ),
    ],
)
def test_other_messages_are_a_bug_of_the_strategy(action: Send, message: str) -> None:
    with pytest.raises(IllegalAction) as refused:
        check_send(action, {"push", "pull"}, 3)
    assert str(refused.value) == message.format(action=action)


def test_the_scripts_gradient_is_applied_after_its_step_and_other_buffers_at_any_time() -> None:
    gradient, accrued = Apply(Buffer("gradient", 0), A), Apply(B, A)
    check_stepped(gradient, has_stepped=True)
    check_stepped(accrued, has_stepped=False)
    with pytest.raises(IllegalAction) as refused:
        check_stepped(gradient, has_stepped=False)
    edits = "the user may still edit the gradient (rule 11 of docs/architecture.md)"
    assert str(refused.value) == f"{gradient} came before StepFinished; {edits}."
