"""How events and actions are stored: slots, compared by value, frozen for the type checker only.

Freezing at run time costs three times the construction, and the simulator makes hundreds of
thousands of records a second; the type checker refuses assignments instead.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import dataclass_transform

    T = TypeVar("T")

    @dataclass_transform(frozen_default=True)
    def record(cls: type[T], /) -> type[T]: ...

else:

    def record(cls):
        """Make `cls` a slots dataclass."""
        return dataclass(slots=True)(cls)
