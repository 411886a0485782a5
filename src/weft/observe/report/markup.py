"""Elements of a page: whatever is no markup itself is escaped, so text of users stays text."""

from collections.abc import Sequence
from html import escape


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """An element. `class_` is class, `stroke_width` stroke-width; an attribute that is None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Sequence[str]) -> Markup:
    """One after the other, escaped where they are plain text."""
    return Markup("".join(each if isinstance(each, Markup) else escape(each) for each in children))


def _plain(value: object) -> str:
    """Coordinates need no more than two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
