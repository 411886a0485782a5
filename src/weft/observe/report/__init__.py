"""The report of a comparison: a page, a picture and two sentences, all made from the records alone."""

from weft.observe.report.page import write_html
from weft.observe.report.picture import write_png
from weft.observe.report.words import verdict

__all__ = ["verdict", "write_html", "write_png"]
