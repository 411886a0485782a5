"""The numpy store: a replica's arrays and the slots a strategy declared, in ordinary memory."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.actions import INNER, Apply, Combine
from weft.core.errors import IllegalAction
from weft.core.names import GRADIENT, INBOX, PARAMS, Buffer
from weft.core.rules import LBFGS, Rule
from weft.core.seat import Replica
from weft.store.lbfgs import Curvature
from weft.store.reduction import reduce_arrays
from weft.store.rules import State, update
from weft.store.store import undeclared

Array = NDArray[Any]


class NumpyStore:
    """`params` and `gradient` are the replica's own memory; other slots are made when first touched.

    A captured value is copied once and shared by all who capture it until the bucket is written.
    A received gradient is applied with its sender's hyper-parameters; a server has no others.
    """

    def __init__(
        self, replica: Replica, slots: Iterable[str], rules: Mapping[str, Rule], *, is_server: bool = False
    ) -> None:
        self.replica = replica
        self._is_server = is_server
        self._rules = rules
        self._rule_state: dict[tuple[str, int], State] = {}
        self._curvatures: dict[tuple[str, tuple[int, ...]], Curvature] = {}
        self._declared: dict[str, dict[int, Array]] = {name: {} for name in (PARAMS, GRADIENT, *slots)}
        self._captured: dict[tuple[str, int], dict[Buffer, Array]] = {}
        self._inbox: Array | None = None
        self._hyper: Any = None
        self.num_copies = 0

    def _array(self, buffer: Buffer) -> Array:
        if buffer.slot == INBOX:
            if self._inbox is None:
                raise IllegalAction("inbox was named, but the event being answered has no body.")
            return self._inbox
        if buffer.slot not in self._declared:
            raise IllegalAction(undeclared(buffer, self._declared))
        array = self._whole(buffer.slot, buffer.bucket)
        if buffer.part is not None:
            start, stop = buffer.part.bounds(len(array))
            return array[start:stop]
        return array

    def _whole(self, slot: str, bucket: int) -> Array:
        """The memory of a bucket; that of a slot which the strategy declared is made when first touched."""
        array = self._declared[slot].get(bucket)
        if array is None:
            if slot in (PARAMS, GRADIENT):
                array = self.replica.array(slot, bucket)
            else:
                array = np.zeros_like(self.replica.array(PARAMS, bucket))
            self._declared[slot][bucket] = array
        return array

    def _written(self, buffer: Buffer) -> Array:
        if buffer.slot == INBOX:
            raise IllegalAction(f"{buffer} was written to, but a received body belongs to its sender.")
        self._captured.pop((buffer.slot, buffer.bucket), None)
        return self._array(buffer)

    def lend(self, buffer: Buffer) -> Array:
        """The memory itself, for somebody who copies it before anything else happens."""
        return self._array(buffer)

    def num_bytes(self, buffer: Buffer) -> int:
        return int(self._array(buffer).nbytes)

    def capture(self, buffer: Buffer) -> Array:
        if buffer.slot == INBOX:
            return self._array(buffer)
        captured = self._captured.setdefault((buffer.slot, buffer.bucket), {})
        if buffer not in captured:
            captured[buffer] = self._array(buffer).copy()
            self.num_copies += 1
        return captured[buffer]

    def forget_captured(self) -> None:
        """The user's code ran and may have written to `gradient` (backward) and `params` (BatchNorm)."""
        self._captured.clear()

    def write(self, buffer: Buffer, payload: Array) -> None:
        self._written(buffer)[:] = payload

    def receive(self, body: Buffer | None, payload: Array | None, hyper: Any) -> None:
        self._inbox = payload
        if hyper is not None:
            self._hyper = hyper

    def combine(self, action: Combine) -> None:
        into = self._written(action.into)
        if action.add is None or action.scale == 0.0:
            if action.keep == 0.0:
                into[:] = 0
            else:
                into *= action.keep
            return
        added = self._array(action.add)
        if action.times is not None:
            added = added * self._array(action.times)
        if action.keep == 0.0:
            np.multiply(added, action.scale, out=into) if action.scale != 1.0 else np.copyto(into, added)
            return
        if action.keep != 1.0:
            into *= action.keep
        if action.scale == 1.0:
            into += added
        else:
            into += added * into.dtype.type(action.scale)

    def apply(self, actions: Sequence[Apply]) -> None:
        first = actions[0]
        if first.scale == 0.0:
            return
        gradients = {action.into.bucket: self._array(action.gradient) for action in actions}
        if len(gradients) < len(actions):  # a bucket more than once: one update after another (rule 6)
            for action in actions:
                self.apply([action])
            return
        for action in actions:
            self._written(action.into)
        if first.rule == INNER:
            if first.into.slot != PARAMS:
                raise IllegalAction(f"{first} runs the user's optimizer on '{first.into.slot}', but it acts on params.")
            theirs = self._is_server or first.gradient.slot == INBOX
            self.replica.apply(gradients, first.scale, self._hyper if theirs else None)
            return
        rule = self._rules.get(first.rule)
        if rule is None:
            raise IllegalAction(f"rule '{first.rule}' was never declared. Return it from the strategy's rules().")
        if isinstance(rule, LBFGS):
            self._apply_together(rule, actions, gradients)
            return
        for action in actions:
            state = self._rule_state.setdefault((first.rule, action.into.bucket), {})
            update(rule, self._array(action.into), gradients[action.into.bucket], first.scale, state)

    def is_finite(self, slot: str) -> bool:
        trained = [bucket for bucket, kind in enumerate(self.replica.buckets) if kind.trainable]
        return all(bool(np.isfinite(self._whole(slot, bucket)).all()) for bucket in trained)

    def _apply_together(self, rule: LBFGS, actions: Sequence[Apply], gradients: Mapping[int, Array]) -> None:
        """One update that looks at all these buckets as one vector, without the flags among them."""
        own = {bucket: gradient.copy() for bucket, gradient in gradients.items()}
        for bucket, gradient in own.items():
            gradient[list(self.replica.flags(bucket))] = 0
        curvature = self._curvatures.setdefault((actions[0].rule, tuple(own)), Curvature())
        curvature.update(rule, [self._array(action.into) for action in actions], list(own.values()), actions[0].scale)

    def hyper(self) -> Any:
        return self.replica.hyper()

    def reduce(self, payloads: Sequence[Array], weights: Sequence[float], op: str) -> Array:
        return reduce_arrays(payloads, weights, op)
