"""What a server does with a gradient that is late."""

import pytest

from weft.core.actions import Apply, Combine, Note
from weft.core.errors import ConfigError
from weft.core.names import Buffer, Roles, Slot
from weft.core.world import World
from weft.strategies.parts.late_gradients import LateRule, remember
from weft.testing.peers import IN0, ONE, P0

GAP, SQUARE, CORRECTED = (Buffer(f"late.{name}", 0) for name in ("gap", "square", "corrected"))
THEN1 = Buffer("then.1", 0)


def test_a_late_gradient_is_applied_as_it_is_unless_something_else_is_said() -> None:
    assert LateRule().update(1, IN0, P0, 9, 0.5) == [Apply(IN0, P0, scale=0.5)]


def test_a_gradient_older_than_the_greatest_age_is_rejected_and_counted() -> None:
    rule = LateRule("reject", 3)
    assert rule.update(1, IN0, P0, 3, 0.5) == [Note("age", 3), Apply(IN0, P0, scale=0.5)]
    assert rule.update(1, IN0, P0, 4, 0.5) == [Note("age", 4), Note("rejected", 1.0)]
    assert [rule.rejects(age) for age in (0, 3, 4)] == [False, False, True]
    assert not LateRule("damp").rejects(99)


def test_the_learning_rate_of_a_damped_gradient_is_divided_by_its_age() -> None:
    rule = LateRule("damp")
    assert [rule.update(1, IN0, P0, age, 0.5)[-1] for age in (0, 1, 2, 4)] == [
        Apply(IN0, P0, scale=scale) for scale in (0.5, 0.5, 0.25, 0.125)
    ]


def test_a_compensated_gradient_gets_a_term_for_what_happened_since() -> None:
    assert LateRule("compensate", compensation=0.1).update(1, IN0, P0, 2, 0.5) == [
        Note("age", 2),
        Combine(GAP, 0.0, P0),
        Combine(GAP, 1.0, THEN1, -1.0),
        Combine(SQUARE, 0.0, IN0, 0.1, times=IN0),
        Combine(CORRECTED, 0.0, IN0),
        Combine(CORRECTED, 1.0, SQUARE, 1.0, times=GAP),
        Apply(CORRECTED, P0, scale=0.5),
    ]


def test_a_gradient_that_is_not_late_needs_no_compensation() -> None:
    assert LateRule("compensate").update(1, IN0, P0, 0, 0.5) == [Note("age", 0), Apply(IN0, P0, scale=0.5)]


def test_only_compensation_needs_memory() -> None:
    world = World(Roles(2, 1), ONE)
    assert LateRule("compensate").slots(world) == (
        *(Slot(f"late.{name}") for name in ("gap", "square", "corrected")),
        Slot("then.0"),
        Slot("then.1"),
    )
    assert LateRule("damp").slots(world) == ()
    assert remember(1, 0) == Combine(THEN1, 0.0, P0)


@pytest.mark.parametrize(
    ("rule", "staleness", "message"),
    [
        (
            LateRule("wait"),
            3,
            "late is 'wait', but it is one of apply, reject, damp, compensate.\n"
            "  Use 'ssp(late=damp)', or leave 'late' out.",
        ),
        (
            LateRule("compensate"),
            0,
            "late is 'compensate', but with a staleness of 0 no gradient is ever late.\n"
            "  Use 'ssp(staleness=3, late=compensate)', or leave 'late' out.",
        ),
        (
            LateRule("reject"),
            3,
            "late is 'reject' and max_age is None, but it says how many versions old a gradient may be.\n"
            "  Use 'ssp(late=reject, max_age=4)'.",
        ),
        (
            LateRule("reject", -1),
            3,
            "late is 'reject' and max_age is -1, but it says how many versions old a gradient may be.\n"
            "  Use 'ssp(late=reject, max_age=4)'.",
        ),
        (
            LateRule("damp", 2),
            None,
            "max_age is 2, but late is 'damp', which rejects nothing.\n"
            "  Use 'ssp(late=reject, max_age=2)', or leave 'max_age' out.",
        ),
        (
            LateRule("compensate", compensation=-0.1),
            None,
            "compensation is -0.1, but it cannot be below 0.\n  Use 'ssp(late=compensate, compensation=0.04)'.",
        ),
        (
            LateRule("damp", compensation=0.5),
            None,
            "compensation is 0.5, but late is 'damp', which compensates nothing.\n"
            "  Use 'ssp(late=compensate, compensation=0.5)', or leave 'compensation' out.",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(rule: LateRule, staleness: int | None, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rule.check(staleness)
    assert str(caught.value) == message


@pytest.mark.parametrize("staleness", [3, None])
def test_every_way_can_be_had(staleness: int | None) -> None:
    rules = [LateRule(), LateRule("reject", 0), LateRule("damp"), LateRule("compensate", compensation=0.0)]
    assert [rule.check(staleness) for rule in rules] == [None] * 4
    assert LateRule().check(0) is None
