"""The seam between drivers and memory: what a driver may ask of a node's tensors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from weft.core.actions import Apply, Combine, Encode
from weft.core.names import Buffer
from weft.core.strategy import Strategy
from weft.observe.records.left_out import LeftOut
from weft.store.gate import Gate

Payload = Any
"""A tensor's value, captured: an array, or its coded form, for stores with tensors; its size for the ghost."""


class Store(Protocol):
    """One node's tensors. Every Buffer that is not declared is an IllegalAction."""

    def num_bytes(self, buffer: Buffer) -> int: ...

    def capture(self, buffer: Buffer) -> Payload:
        """The value now; later writes do not change it (rule 4 of docs/architecture.md)."""
        ...

    def give_params(self) -> None:
        """The script is about to begin an iteration with `params` as they are now."""
        ...

    def look_for_writes(self) -> None:
        """The script pauses within an iteration: what it has written to `params` so far is no protocol's."""
        ...

    def refuse_writes(self) -> None:
        """Raise ConfigError if the script has written to `params` what the strategy would overwrite."""
        ...

    def forget_captured(self) -> None:
        """User code ran and may have written to the replica behind the store's back."""
        ...

    def write(self, buffer: Buffer, payload: Payload) -> None: ...

    def receive(self, body: Buffer | None, payload: Payload, hyper: Any) -> None:
        """Let INBOX name this payload until the next call (rule 5)."""
        ...

    def combine(self, action: Combine) -> None: ...

    def encode(self, action: Encode) -> None:
        """Let a tensor be coded by the codec of a kind."""
        ...

    def apply(self, actions: Sequence[Apply]) -> None:
        """One update by actions of the same rule, scale and slots."""
        ...

    def guard(self, rank: int, num_workers: int, strategy: Strategy, tell: Callable[[LeftOut], None]) -> Gate | None:
        """A gate for the gradients of the worker whose tensors these are; none where there are no numbers."""
        ...

    def hyper(self) -> Any:
        """The hyper-parameters that travel with gradients."""
        ...

    def reduce(self, payloads: Sequence[Payload], weights: Sequence[float], op: str) -> Payload:
        """The weighted mean, sum or maximum, in the order given."""
        ...


def undeclared(buffer: Buffer, declared: Mapping[str, object]) -> str:
    """The message for a buffer that no slot declares."""
    return (
        f"slot '{buffer.slot}' was never declared; declared are {', '.join(sorted(declared))}. "
        "Return it from the strategy's slots()."
    )
