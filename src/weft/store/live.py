"""The store of a node whose script runs while messages come: what the script reads stays as it was.

That is rule 13 of docs/architecture.md.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from weft.core.names import GRADIENT, INBOX, PARAMS, Buffer
from weft.core.rules import Rule
from weft.core.script_state import JOINED, NO_USER, READS_PARAMS, ScriptState
from weft.core.seat import Replica
from weft.store.coded import Coded
from weft.store.numpy import Array, NumpyStore
from weft.store.own_writes import same_bytes


class LiveStore(NumpyStore):
    """Writes to `params` go to a shadow while the script, by where it stands, reads them; the next iteration sees them.

    Its driver moves `script` and says so: `stop_user` when it has begun to wait, `let_user_run` before it goes on.
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
        script: ScriptState | None = None,
    ) -> None:
        super().__init__(
            replica, slots, rules, is_server=is_server, codecs=codecs, seed=seed, overwritten_by=overwritten_by
        )
        self.script = ScriptState(NO_USER if is_server else JOINED) if script is None else script
        self._user_waits = is_server
        self._lent: set[tuple[str, int]] = set()
        """The slots and buckets whose memory was lent to the transport."""
        self.take_back: Callable[[str, int], None] = lambda slot, bucket: None
        """Called with a slot and bucket that was lent, before its memory changes."""
        self._body: Buffer | None = None
        self._shadows: dict[int, Array] = {}
        self._spare: dict[int, Array] = {}
        self._spare_bases: dict[int, Array] = {}
        self._bases: dict[int, Array] = {}
        """What buckets were when they were shadowed: the script may write to them, too."""

    def _whole(self, slot: str, bucket: int) -> Array:
        if slot == PARAMS and bucket in self._shadows:
            return self._shadows[bucket]
        return super()._whole(slot, bucket)

    def _written(self, buffer: Buffer) -> Array:
        if buffer.slot == PARAMS and self.script.at in READS_PARAMS:
            self._shadow(buffer.bucket)
        return super()._written(buffer)

    def may_lend(self, buffer: Buffer, operand: Array | Coded) -> bool:
        """Whether a message may read this tensor's memory when it leaves: the store takes it back before it changes
        it, and before the script, which may, goes on. If so, it is lent from now on."""
        is_theirs = buffer.slot in (PARAMS, GRADIENT) and not self._user_waits
        if is_theirs or buffer.slot == INBOX or isinstance(operand, Coded):
            return False
        self._lent.add((buffer.slot, buffer.bucket))
        return True

    def _about_to_change(self, slot: str, bucket: int) -> None:
        super()._about_to_change(slot, bucket)
        if (slot, bucket) in self._lent:
            self._lent.remove((slot, bucket))
            self.take_back(slot, bucket)

    def _shadow(self, bucket: int) -> None:
        if bucket in self._shadows:
            return
        array = self.replica.array(PARAMS, bucket)
        shadow = self._spare.pop(bucket, None)
        if shadow is None:
            shadow = np.empty_like(array)
        np.copyto(shadow, array)
        self._shadows[bucket] = shadow
        base = self._spare_bases.pop(bucket, None)
        self._bases[bucket] = np.empty_like(array) if base is None else base
        np.copyto(self._bases[bucket], shadow)  # not the array: the script may write to it between two copies
        self.num_copies += 1

    def received(self) -> tuple[Buffer | None, Array | Coded | None, Any]:
        """A copy of the body that INBOX names now, for an answer that is finished later."""
        return self._body, None if self._inbox is None else self._inbox.copy(), self._hyper

    def receive(self, body: Buffer | None, payload: Array | Coded | None, hyper: Any) -> None:
        self._body = body
        super().receive(body, payload, hyper)

    def let_user_run(self) -> None:
        """The script is about to run: it shall see all that was written so far, and nothing that is written later."""
        self.settle_shadows()
        self.give_params()
        for slot, bucket in [lent for lent in self._lent if lent[0] in (PARAMS, GRADIENT)]:
            self._about_to_change(slot, bucket)
        self._user_waits = self._is_server

    def stop_user(self, *, refuses_writes: bool = False) -> None:
        """The script waits: what is written now it will see when it goes on.

        What it has written itself, and a strategy would overwrite, is refused at its step; until then it may take it
        back.
        """
        self._user_waits = True
        if refuses_writes:
            self.refuse_writes()
        else:
            self.look_for_writes()
        self._take_over()

    def _take_over(self) -> None:
        self.settle_shadows()
        self.forget_captured()

    def settle_shadows(self) -> None:
        """Write to `params` what was written to shadows of them."""
        if not self._shadows:
            return
        for bucket, shadow in self._shadows.items():
            self._about_to_change(PARAMS, bucket)
            array, base = self.replica.array(PARAMS, bucket), self._bases.get(bucket)
            if base is not None and not same_bytes(array, base):  # BatchNorm's means, or the script's own writes
                shadow += array - base
            np.copyto(array, shadow)
        self._spare.update(self._shadows)
        self._spare_bases.update(self._bases)
        self._shadows.clear()
        self._bases.clear()

    def lend_model(self) -> None:
        """Let other values be put into the script's model, while protocols go on with the worker's own."""
        self.settle_shadows()
        for bucket in range(len(self.replica.buckets)):
            self._about_to_change(PARAMS, bucket)
            self._shadow(bucket)
        self._bases.clear()  # what the script does to the values of others is not the worker's own

    def take_model_back(self) -> None:
        """The script's model has the worker's own values again."""
        self._take_over()
