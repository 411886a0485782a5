"""A node's story: its last events and the actions that answered them."""

from weft.core.actions import Compute, Note
from weft.core.events import GradientReady, Started
from weft.core.story import CHAPTERS_MAX, Story


def test_who_has_seen_nothing_says_so() -> None:
    assert Story().tell("worker 3") == "  worker 3 has seen nothing yet."


def test_a_story_is_told_oldest_first_with_the_actions_below_their_event() -> None:
    story = Story()
    story.chapters.append((0.0, Started(0), [Compute(0)]))
    story.chapters.append((1.5, GradientReady(0, 0, 8.0), [Note("a", 1.0), Note("b", 2.0)]))
    assert story.tell("worker 3") == (
        "  the last that worker 3 saw and did:\n"
        "    0.000000 s  Started(view=0)\n"
        "        -> Compute(step=0, portion=None)\n"
        "    1.500000 s  GradientReady(step=0, bucket=0, samples=8.0)\n"
        "        -> Note(name='a', value=1.0)\n"
        "        -> Note(name='b', value=2.0)"
    )


def test_only_the_last_chapters_are_kept() -> None:
    story = Story()
    for step in range(CHAPTERS_MAX + 5):
        story.chapters.append((float(step), GradientReady(step, 0, 8.0), []))
    lines = story.tell("worker 0").splitlines()
    assert len(lines) == 1 + CHAPTERS_MAX
    assert "GradientReady(step=5," in lines[1]
    assert f"GradientReady(step={CHAPTERS_MAX + 4}," in lines[-1]
