"""The style sheet of a report: light, dark by the reader's wish, narrow, and printed."""

from pathlib import Path

from weft.core.activity import ACTIVITIES, SENDS
from weft.observe.report.palette import DASHES, LIGHT, variables

LIGHT_PAGE = "color-scheme:light;--page:#fff;--card:#f6f7f9;--ink:#1b1f24;--soft:#59626d;--rule:#d9dde3;"
DARK_PAGE = "color-scheme:dark;--page:#14171b;--card:#1d2126;--ink:#e8eaed;--soft:#a3acb7;--rule:#363c44;"

SHEET = Path(__file__).with_name("report.css").read_text(encoding="utf-8")


def style() -> str:
    """The whole sheet. Paper is light whatever the screen is."""
    contenders = "".join(f".k{i}{{--k:var(--c{i})}}" for i in range(len(LIGHT))) + ".kb{--k:var(--cb)}"
    dashes = "".join(f".dash{i}{{stroke-dasharray:{dash}}}" for i, dash in enumerate(DASHES) if dash)
    doings = "".join(f".a-{word}{{--k:var(--a-{word})}}" for word in (*ACTIVITIES, SENDS))
    light = f":root{{{LIGHT_PAGE}{variables('light')}}}"
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{DARK_PAGE}{variables('dark')}}}}}"
    return light + dark + SHEET + contenders + dashes + doings
