"""The numpy store: a replica's arrays and the slots a strategy declared, in ordinary memory."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import sqrt
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from weft.codecs.codec import Codec, Turn
from weft.core.actions import INNER, Apply, Combine, Encode
from weft.core.errors import IllegalAction
from weft.core.names import GRADIENT, INBOX, PARAMS, Buffer
from weft.core.rules import LBFGS, Rule
from weft.core.seat import Replica
from weft.core.strategy import Strategy
from weft.observe.records.left_out import LeftOut
from weft.store.coded import Coded, Meter, encode, shape_of
from weft.store.coded_slots import CodedSlots
from weft.store.digest import digests, sketches
from weft.store.gate import Gate
from weft.store.lbfgs import Curvature
from weft.store.own_writes import OwnWrites
from weft.store.reduction import reduce_arrays
from weft.store.rules import COUNT, State, kept_by, update
from weft.store.store import undeclared

Array = NDArray[Any]

KEPT = ("residual", "rest")
"""How the slots end in which what was left out is kept."""


class NumpyStore:
    """`params` and `gradient` are the replica's own memory; other slots are made when first touched.

    A captured value is copied once and shared by all who capture it until the bucket is written.
    A received gradient is applied with its sender's hyper-parameters; a server has no others.
    What is coded stays so until somebody wants an array of it.
    """

    def __init__(
        self,
        replica: Replica,
        slots: Iterable[str],
        rules: Mapping[str, Rule],
        *,
        is_server: bool = False,
        codecs: Mapping[str, Any] | None = None,
        seed: tuple[int, int] = (0, 0),
        overwritten_by: str | None = None,
    ) -> None:
        """`overwritten_by` is the strategy that would overwrite what the script writes to `params`."""
        self.replica = replica
        self._own_writes = None if overwritten_by is None else OwnWrites(replica, overwritten_by)
        self._is_server = is_server
        self._codecs: Mapping[str, Codec] = codecs or {}
        self._seed = seed
        """That of the run, and the node: random choices of codecs follow from it."""
        self.meter = Meter()
        self._coded = CodedSlots(self._memory, self.meter)
        self._rules = rules
        self._rule_state: dict[tuple[str, int], State] = {}
        """By rule and bucket; what a rule keeps of each element is a slot, too: 'outer.velocity'."""
        self._curvatures: dict[tuple[str, tuple[int, ...]], Curvature] = {}
        self._declared: dict[str, dict[int, Array]] = {name: {} for name in (PARAMS, GRADIENT, *slots)}
        for name, rule in rules.items():
            self._declared |= {f"{name}.{kept}": {} for kept in kept_by(rule)}
        self._captured: dict[tuple[str, int], dict[Buffer, Array]] = {}
        self._inbox: Array | Coded | None = None
        self._hyper: Any = None
        self._gate: Gate | None = None
        self.num_copies = 0

    def operand(self, buffer: Buffer) -> Array | Coded:
        """A tensor in the form in which it is here, array or coded; what is to be kept must be copied."""
        if buffer.slot == INBOX:
            if self._inbox is None:
                raise IllegalAction("inbox was named, but the event being answered has no body.")
            return self._inbox
        return self._coded.get(buffer) or self._array(buffer)

    def _array(self, buffer: Buffer) -> Array:
        if buffer.slot == INBOX:
            inbox = self.operand(buffer)
            return inbox.decoded(self.meter) if isinstance(inbox, Coded) else inbox
        if self._codecs:
            self._coded.settle(buffer)
        return self._memory(buffer)

    def _memory(self, buffer: Buffer) -> Array:
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
        self._about_to_change(buffer.slot, buffer.bucket)
        return self._array(buffer)

    def _about_to_change(self, slot: str, bucket: int) -> None:
        self._captured.pop((slot, bucket), None)

    def lend(self, buffer: Buffer) -> Array:
        """The memory itself, for somebody who copies it before anything else happens."""
        return self._array(buffer)

    def num_bytes(self, buffer: Buffer) -> int:
        return int(self.operand(buffer).nbytes)

    def capture(self, buffer: Buffer) -> Array | Coded:
        operand = self.operand(buffer)
        if buffer.slot == INBOX or isinstance(operand, Coded):
            return operand
        captured = self._captured.setdefault((buffer.slot, buffer.bucket), {})
        if buffer not in captured:
            captured[buffer] = operand.copy()
            self.num_copies += 1
        return captured[buffer]

    def give_params(self) -> None:
        if self._own_writes is not None:
            self._own_writes.begin()

    def look_for_writes(self) -> None:
        if self._own_writes is not None:
            self._own_writes.look()

    def refuse_writes(self) -> None:
        if self._own_writes is not None:
            self._own_writes.refuse()

    def forget_captured(self) -> None:
        """The user's code ran and may have written to `gradient` (backward) and `params` (BatchNorm)."""
        self._captured.clear()

    def write(self, buffer: Buffer, payload: Array) -> None:
        self._coded.drop(buffer)
        self._written(buffer)[:] = payload

    def receive(self, body: Buffer | None, payload: Array | Coded | None, hyper: Any) -> None:
        self._inbox = payload
        if hyper is not None:
            self._hyper = hyper

    def encode(self, action: Encode) -> None:
        """Let `into` be coded."""
        codec = self._codecs.get(action.kind)
        if codec is None:
            raise IllegalAction(f"{action} has no codec; those with one are {', '.join(sorted(self._codecs))}.")
        into, bucket = action.into, action.into.bucket
        if into.slot not in self._declared:
            raise IllegalAction(undeclared(into, self._declared))
        source, given = self._array(action.source), None
        helper: Any = None
        if action.given is not None:
            given = self.operand(action.given)
            helper = given.payload if isinstance(given, Coded) else self._written(action.given)
        elif codec.captures:
            helper = self.replica.factors(bucket)
        residual = None if action.residual is None else self._written(action.residual)
        run, node = self._seed
        own = (crc32(action.kind.encode()), *(into.part or (0, 0)))  # what is encoded twice is drawn twice
        common = _mixed(run, 0, action.clock, bucket)
        turn = Turn(action.clock, _mixed(run, node + 1, action.clock, bucket, *own), common)
        shape = shape_of(self.replica.buckets[bucket], into.part)
        coded = encode(action.kind, codec, shape, source, residual, turn, helper, self.meter)
        self._put(into, coded.with_given(helper) if isinstance(given, Coded) else coded)

    def _put(self, buffer: Buffer, coded: Coded) -> None:
        self._about_to_change(buffer.slot, buffer.bucket)  # decoded, it will be there
        self._coded.put(buffer, coded)

    def _combine_coded(self, action: Combine) -> bool:
        """Do what a coded tensor takes part in, if possible without an array of its size; False if none does."""
        into, keep, scale = action.into, action.keep, action.scale
        added = None if action.add is None or scale == 0.0 else self.operand(action.add)
        here = self._coded.get(into)
        if keep == 0.0 and not (here is not None and here.codec.adds_up and added is None):
            self._coded.drop(into)
            here = None
        if not isinstance(added, Coded) or action.times is not None:
            if here is None or added is not None or not here.codec.adds_up:
                return False
            self._put(into, here.merged(keep, None, 0.0))
        elif keep == 0.0 and (scale == 1.0 or added.codec.adds_up) and into.slot not in (PARAMS, GRADIENT):
            self._put(into, added.copy() if scale == 1.0 else added.merged(scale, None, 0.0))
        elif here is not None and here.can_merge(added):
            self._put(into, here.merged(keep, added, scale))
        else:
            added.add_to(self._written(into), keep, scale, self.meter)
        return True

    def combine(self, action: Combine) -> None:
        if self._codecs and self._combine_coded(action):
            return
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
        # a bucket more than once: one update after another (rule 6 of docs/architecture.md)
        if len(gradients) < len(actions):
            for action in actions:
                self.apply([action])
            return
        for action in actions:
            self._written(action.into)
        if first.rule == INNER:
            if first.into.slot != PARAMS:
                raise IllegalAction(f"{first} runs the user's optimizer on '{first.into.slot}', but it acts on params.")
            if first.gradient.slot == GRADIENT and self._gate is not None and not self._gate.lets_apply(gradients):
                return
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
            bucket = action.into.bucket
            state = self._rule_state.setdefault((first.rule, bucket), {})
            for kept in kept_by(rule):
                state[kept] = self._written(Buffer(f"{first.rule}.{kept}", bucket))
            update(rule, self._array(action.into), gradients[bucket], first.scale, state)

    def digests(self) -> dict[str, int]:
        """Of the replica's tensors, as its script sees them and as the last step left what is not trained."""
        return digests(self.replica, {} if self._gate is None else self._gate.kept)

    def sketches(self) -> dict[str, list[float]]:
        """Of the same tensors, to see how far they are from another worker's."""
        return sketches(self.replica, {} if self._gate is None else self._gate.kept)

    def guard(self, rank: int, num_workers: int, strategy: Strategy, tell: Callable[[LeftOut], None]) -> Gate:
        self._gate = Gate(rank, num_workers, strategy, self.replica, tell)
        return self._gate

    def _apply_together(self, rule: LBFGS, actions: Sequence[Apply], gradients: Mapping[int, Array]) -> None:
        """One update that looks at all these buckets as one vector, without the flags among them."""
        own = {bucket: gradient.copy() for bucket, gradient in gradients.items()}
        for bucket, gradient in own.items():
            gradient[list(self.replica.flags(bucket))] = 0
        curvature = self._curvatures.setdefault((actions[0].rule, tuple(own)), Curvature())
        curvature.update(rule, [self._array(action.into) for action in actions], list(own.values()), actions[0].scale)

    def hyper(self) -> Any:
        return self.replica.hyper()

    def residual_norm(self) -> float:
        """The length of all that codecs have left out and will say later."""
        kept = [arrays for slot, arrays in self._declared.items() if slot.endswith(KEPT)]
        return sqrt(sum(float(np.vdot(array, array)) for arrays in kept for array in arrays.values()))

    def to_keep(self) -> dict[str, dict[int, Array]]:
        """What a run that goes on from a checkpoint must have besides `params`, by slot and bucket: what codecs have
        left out, and the state of rules."""
        of_rules = {f"{name}.{kept}" for name, rule in self._rules.items() for kept in kept_by(rule)}
        slots = [slot for slot in self._declared if slot.endswith(KEPT) or slot in of_rules]
        kept = {slot: {b: self._array(Buffer(slot, b)) for b in self._declared[slot]} for slot in slots}
        for (rule, bucket), state in self._rule_state.items():
            if COUNT in state:
                kept.setdefault(f"{rule}.{COUNT}", {})[bucket] = state[COUNT]
        return {slot: arrays for slot, arrays in kept.items() if arrays}

    def take_kept(self, kept: Mapping[str, Mapping[int, Array]]) -> None:
        """Go on with what another store, of the same strategy and layout, had to keep."""
        for slot, arrays in kept.items():
            rule, _, name = slot.rpartition(".")
            for bucket, array in arrays.items():
                if name == COUNT:
                    self._rule_state.setdefault((rule, bucket), {})[COUNT] = array
                else:
                    self._written(Buffer(slot, bucket))[:] = array

    def reduce(self, payloads: Sequence[Array], weights: Sequence[float], op: str) -> Array:
        return reduce_arrays(payloads, weights, op)


def _mixed(*numbers: int) -> int:
    """A number of 63 bits that follows from others and looks drawn."""
    mixed = 0
    for number in numbers:
        mixed = (mixed ^ number) * 0x9E3779B97F4A7C15 + 0x7F4A7C15 & (1 << 64) - 1
        mixed ^= mixed >> 29
    return mixed >> 1
