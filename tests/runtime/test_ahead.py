"""Running ahead: the script goes on, buckets land when it uses them, and it is let go only where that pays."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

import pytest

from weft.core.actions import INNER, Apply
from weft.core.events import Reduced
from weft.core.names import GRADIENT, PARAMS, Buffer
from weft.core.script_state import BACKWARD, IN_STEP, RESUME, STEP, ScriptState
from weft.runtime.ahead import LOOK_EVERY, LOOKS, RunAhead, WaitingShare


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def steps(share: WaitingShare, clock: Clock, num_steps: int, computes_s: float, waits_s: float) -> None:
    """Steps that are not run ahead of."""
    for _ in range(num_steps):
        clock.now_s += computes_s
        share.gave()
        clock.now_s += waits_s
        share.waited()


def test_it_pays_once_a_few_steps_in_a_row_waited_for_a_noticeable_part() -> None:
    clock = Clock()
    share = WaitingShare(clock)
    steps(share, clock, 1, 0.9, 0.1)
    assert not share.is_large(), "how long the first step took is not known"
    steps(share, clock, LOOKS - 1, 0.9, 0.1)
    assert not share.is_large()
    steps(share, clock, 1, 0.9, 0.1)
    assert share.is_large()


def test_it_does_not_pay_where_hardly_anything_is_waited_for() -> None:
    clock = Clock()
    share = WaitingShare(clock)
    steps(share, clock, 10, 0.99, 0.01)
    assert not share.is_large()


def test_one_step_that_waited_for_long_does_not_count() -> None:
    clock = Clock()
    share = WaitingShare(clock)
    steps(share, clock, 10, 0.99, 0.01)
    steps(share, clock, 1, 1.0, 60.0)
    assert not share.is_large()


def test_now_and_then_it_is_measured_again() -> None:
    clock = Clock()
    share = WaitingShare(clock)
    steps(share, clock, 1 + LOOKS, 0.5, 0.5)
    assert [share.is_large() for _ in range(2 * LOOK_EVERY)] == 2 * [*(LOOK_EVERY - 1) * [True], False]
    steps(share, clock, LOOKS, 0.99, 0.001)
    assert not share.is_large()


class Reduction:
    """Reductions that a test ends, in place of those between hosts."""

    def __init__(self, num_buckets: int) -> None:
        self.under_way = set(range(num_buckets))
        self.may = True

    def may_promise(self) -> bool:
        return self.may

    def promise(self, deliver: Callable[[Reduced], None]) -> None:
        for bucket in sorted(self.under_way):
            deliver(Reduced(0, Buffer(GRADIENT, bucket), 1.0))

    def is_under_way(self, bucket: int) -> bool:
        return bucket in self.under_way


class Params:
    """The one copy of the parameters of a host."""

    is_promised, is_written = False, False

    def is_untouched(self) -> bool:
        return not self.is_written

    def promise(self) -> None:
        self.is_promised = True


class Tensors:
    """A replica's tensors, which say what was asked of them."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.may = True
        self.land: Callable[[int], None]

    def may_be_awaited(self) -> bool:
        return self.may

    def await_gradients(self, land: Callable[[int], None]) -> None:
        self.land = land
        self.calls.append("gradients")

    def begin_update(self) -> None:
        self.calls.append("numbers")

    def await_params(self) -> None:
        self.calls.append("params")

    def landed(self, bucket: int) -> None:
        self.calls.append(bucket)


class Peer:
    """A peer that waits for as many buckets as there are."""

    def __init__(self, num_buckets: int) -> None:
        self.awaited = num_buckets

    @property
    def holds_user(self) -> bool:
        return bool(self.awaited)


class Setting:
    """A script whose backward has given the gradients of two buckets."""

    def __init__(self, share: WaitingShare | None = None) -> None:
        self.reduce, self.params, self.tensors, self.peer = Reduction(2), Params(), Tensors(), Peer(2)
        self.script = ScriptState()
        self.waited_for: list[int] = []
        self.applied: list[int] = []
        self.ahead = RunAhead(
            cast(Any, self.reduce), cast(Any, self.params), self.tensors, self.script, self.wait, self.driving, share
        )

    def wait(self, done: Callable[[], bool]) -> None:
        """All other workers' parts come while somebody waits, bucket by bucket."""
        while not done():
            bucket = max(self.reduce.under_way)
            self.reduce.under_way.discard(bucket)
            self.waited_for.append(bucket)
            self.peer.awaited = max(0, self.peer.awaited - 1)

    def driving(self) -> Any:
        return nullcontext()

    def told(self, event: Reduced) -> None:
        self.peer.awaited -= 1

    def backward(self) -> None:
        self.script.call(BACKWARD)
        self.ahead.end_backward([0, 1], self.told, cast(Any, self.peer))
        self.script.call(RESUME)

    def step(self) -> None:
        """The script's step, in which the peer applies what it believes to be reduced."""
        self.script.call(STEP)
        if self.ahead.is_ahead:
            updates = [Apply(Buffer(GRADIENT, bucket), Buffer(PARAMS, bucket), INNER) for bucket in range(2)]
            self.ahead.put_off(updates, self.apply)
        self.script.call(RESUME)

    def apply(self, updates: Any) -> None:
        assert self.script.at is IN_STEP
        self.applied += [update.into.bucket for update in updates]


def test_backward_returns_at_once_and_each_bucket_is_updated_when_it_is_used() -> None:
    setting = Setting()
    setting.backward()
    assert (setting.ahead.is_ahead, setting.waited_for) == (True, [])
    setting.step()
    assert setting.params.is_promised
    assert setting.tensors.calls == ["gradients", "numbers", "params"]
    setting.tensors.land(1)
    assert (setting.waited_for, setting.applied, setting.ahead.is_ahead) == ([1], [1], True)
    setting.tensors.land(1)
    setting.tensors.land(0)
    assert (setting.applied, setting.ahead.is_ahead) == ([1, 0], False)


def test_what_is_used_before_the_step_lands_without_an_update() -> None:
    setting = Setting()
    setting.backward()
    setting.ahead.land_all()
    assert (setting.waited_for, setting.applied, setting.ahead.is_ahead) == ([1, 0], [], False)
    setting.step()
    assert not setting.params.is_promised


@pytest.mark.parametrize("why", ["reduce", "params", "tensors"])
def test_backward_blocks_where_anything_speaks_against_it(why: str) -> None:
    setting = Setting()
    setting.reduce.may, setting.params.is_written, setting.tensors.may = (
        why != "reduce",
        why == "params",
        why != "tensors",
    )
    setting.backward()
    assert (setting.ahead.is_ahead, setting.waited_for, setting.tensors.calls) == (False, [1, 0], [])


def test_backward_blocks_until_steps_have_shown_that_it_waits_for_long() -> None:
    clock = Clock()
    setting = Setting(WaitingShare(clock))
    wait = setting.ahead._wait

    def slowly(done: Callable[[], bool]) -> None:
        clock.now_s += 0.2
        wait(done)

    setting.ahead._wait = slowly
    seen = []
    for _ in range(LOOKS + 3):
        setting.reduce.under_way, setting.peer.awaited = {0, 1}, 2
        clock.now_s += 0.8
        setting.backward()
        seen.append(setting.ahead.is_ahead)
        setting.step()
        setting.ahead.land_all()
    assert seen == [*(LOOKS + 1) * [False], True, True]
