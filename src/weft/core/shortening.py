"""Long texts are cut in the middle: what comes from elsewhere must not flood a screen, a log or a channel."""

CHARACTERS_MAX = 8192
"""Of an error's text."""
WORD_CHARACTERS_MAX = 200
"""Of a value that a message quotes."""


def shortened(text: str, characters_max: int = CHARACTERS_MAX) -> str:
    """The text, or its head and its tail with how much is left out between them.

    Two thirds of what may stay is the head: a message begins with what happened, and ends with its cause.
    """
    if len(text) <= characters_max:
        return text
    head, tail = characters_max * 2 // 3, characters_max // 3
    return f"{text[:head]} ... ({len(text) - head - tail:,} characters left out) ... {text[-tail:]}"
