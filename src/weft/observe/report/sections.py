"""The frame of every part of a report: a title, a picture, and below it a sentence that says how to read it."""

import re

from weft.observe.report.markup import Markup, tag

BEFORE_UNITS = re.compile(r"(?<=\d) (?=(?:%|us|ms|s|min|B|kB|MB|GB|TB)(?!\w))")


def unbroken(sentence: str) -> str:
    """The same words, but no line ends between a number and its unit."""
    return BEFORE_UNITS.sub("\N{NO-BREAK SPACE}", sentence)


def section(title: str, *body: Markup) -> Markup:
    """A part of the page."""
    return tag("section", tag("h2", title), *body)


def pictured(title: str, picture: Markup, caption: str) -> Markup:
    """A part that is a picture with its caption."""
    return section(title, tag("figure", picture, tag("figcaption", unbroken(caption))))
