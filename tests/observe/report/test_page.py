"""The page of a comparison, as text and in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ui.browser import Browser, browser
from support.ui.comparisons import HABITS, Habit, among, comparison, measured, setup

from weft.observe.records.comparison import Comparison, Contender
from weft.observe.report.page import page, write_html

LONG = Habit(
    "local_sgd(every=8, topology='hierarchy(hosts=4, inner=ring, outer=exponential)') compress=topk(0.01)|qsgd"
)
HOSTILE = '<img src=x onerror="console.error(1)"> & </style></script>'
COMPARISONS = {
    "whole": comparison(),
    "one seed, no target": comparison(HABITS[:2], 1, None),
    "nobody arrived": comparison(HABITS[3:], 3, 0.9999),
    "long names": comparison([LONG, *HABITS], failed=[f"{LONG.label} twice", "gossip"]),
    "many workers": comparison([Habit("wide", (0.04, *[0.01] * 63), waits=True), HABITS[4]]),
    "hostile": comparison([*HABITS, Habit(HOSTILE)], failed=[HOSTILE + " again"]),
    "little known": among(Contender("a", runs=[measured(1.0)])),
    "all failed": among(Contender("a", error="no")),
}

OVERFLOWING = """
[...document.querySelectorAll('main *')].filter(e => {
  const box = e.getBoundingClientRect();
  const room = (e.closest('.plot') || document.documentElement).getBoundingClientRect();
  const stretched = !e.matches('.xs') && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0;
  const outside = box.right > room.right + 0.5 || box.left < room.left - 0.5;
  return !e.closest('svg') && ((stretched && getComputedStyle(e).display != 'inline') || outside);
}).map(e => e.outerHTML.slice(0, 200))
"""
COLLIDING = """
[...document.querySelectorAll('.xs, .ys, .ruler')].flatMap(edge => {
  const boxes = [...edge.children].map(e => e.getBoundingClientRect());
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return boxes.filter((a, i) => boxes.some((b, k) => k > i && meet(a, b))).map(() => edge.textContent);
})
"""
EMPTY = """
[...document.querySelectorAll('section, figure, figcaption, h1, h2, .verdict, .card, main svg')].filter(e => {
  const box = e.getBoundingClientRect();
  const silent = !e.closest('svg') && !e.innerText.trim();
  return box.width < 1 || box.height < 1 || silent;
}).map(e => e.outerHTML.slice(0, 200))
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests here."""
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", COMPARISONS)
def test_a_browser_shows_every_part_without_complaint_or_overflow(
    tab: Browser, tmp_path: Path, name: str, width: int
) -> None:
    path = tmp_path / "report.html"
    write_html(COMPARISONS[name], path)
    tab.complaints.clear()
    tab.fetched.clear()
    tab.open(path, width)
    assert tab.run(OVERFLOWING) == []
    assert tab.run(COLLIDING) == []
    assert tab.run(EMPTY) == []
    assert tab.run("document.documentElement.scrollWidth <= window.innerWidth")
    assert tab.complaints == []
    assert tab.fetched == [path.as_uri()]


def test_all_parts_are_there_from_top_to_bottom(tab: Browser, tmp_path: Path) -> None:
    write_html(comparison(), tmp_path / "report.html")
    tab.open(tmp_path / "report.html", 1280)
    assert tab.run("document.title") == "train.py on 4 workers: 7 ways to train"
    assert tab.run("[...document.querySelectorAll('h2')].map(e => e.textContent)") == [
        "What was compared",
        "Contenders",
        "Time to accuracy=0.97",
        "Accuracy over time",
        "Training loss over time",
        "Where the workers' time went",
        "How old updates were",
        "Consensus distance over time",
        "Who did what when",
        "How to repeat it",
    ]
    assert tab.run("document.querySelector('pre').textContent") == comparison().setup.command


def test_text_of_users_stays_text(tab: Browser, tmp_path: Path) -> None:
    write_html(COMPARISONS["hostile"], tmp_path / "report.html")
    tab.open(tmp_path / "report.html", 1280)
    assert tab.run("document.querySelectorAll('img, script').length") == 0
    cells = tab.run("[...document.querySelectorAll('td:first-child')].map(e => e.textContent)")
    assert HOSTILE in cells


def test_a_dark_screen_has_a_dark_page_and_paper_a_light_one(tab: Browser, tmp_path: Path) -> None:
    write_html(comparison(), tmp_path / "report.html")
    colours = []
    for dark, media in ((False, "screen"), (True, "screen"), (True, "print")):
        tab.open(tmp_path / "report.html", 1280, dark, media)
        colours.append(tab.run("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(20, 23, 27)", "rgb(255, 255, 255)"]


def test_what_there_is_nothing_to_show_of_is_said() -> None:
    assert "Left out" not in page(comparison())
    assert (
        "Left out, because there is nothing to show: what was reported, training loss, where time went, how old "
        "updates were, consensus distance, who did what when."
    ) in page(COMPARISONS["little known"])


def test_a_page_says_whether_runs_were_simulated_and_whether_all_are_done() -> None:
    assert ">Measured in real runs.<" in page(comparison())
    simulated = Comparison(setup(3, None, "edge"), comparison(target=None).contenders)
    assert ">Simulated on the cluster &#x27;edge&#x27;.<" in page(simulated)
    assert page(simulated).count(">virtual seconds<") == page(comparison()).count(">seconds<") == 3
    assert ">Measured in real runs; not all runs are done yet.<" in page(among(Contender("a")))


def test_equal_comparisons_have_equal_pages() -> None:
    assert page(comparison()) == page(comparison())
    assert page(comparison()) != page(comparison(target=0.96))


def test_a_page_needs_nothing_from_elsewhere() -> None:
    whole: Comparison = comparison()
    assert not any(word in page(whole) for word in ("http:", "https:", "<script", "<link", "@import", "url("))
