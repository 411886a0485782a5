"""What protocols may know of a codec: what it carries and what it wants, never what it does to an array."""

from typing import Protocol, runtime_checkable

from weft.core.names import Carries


@runtime_checkable
class Coding(Protocol):
    """A codec, as seen by those who only name tensors."""

    @property
    def carries(self) -> frozenset[Carries]:
        """What it may carry."""
        ...

    @property
    def wants_feedback(self) -> bool:
        """What is left out must be kept and said later."""
        ...

    @property
    def adds_up(self) -> bool:
        """What is coded can be summed without being decoded."""
        ...
