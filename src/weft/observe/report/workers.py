"""The parts of a report about single workers: shares of their time, how old updates were, who did what when."""

from collections import Counter
from statistics import fmean

from weft.core.activity import COMPUTES, PAUSED, READS, WAITS
from weft.observe.records.comparison import Comparison, Contender, WorkerFigures
from weft.observe.report.bars import histogram, shares
from weft.observe.report.figures import Standings, ranked
from weft.observe.report.markup import Markup, joined, tag
from weft.observe.report.sections import pictured
from weft.observe.report.timeline import (
    IN_WORDS,
    activity_legend,
    common_length,
    lanes,
    share_of,
    shown_workers,
    stretch,
)
from weft.observe.report.words import listed, percent

Shares = dict[str, float]


def card(title: str, *body: Markup) -> Markup:
    """A box of its own for one contender."""
    return tag("div", tag("h3", title), *body, class_="card")


def time_section(comparison: Comparison, table: Standings) -> Markup | None:
    """What each worker spent its time with, one card for each contender that was looked into."""
    known = {each.label: found for each in ranked(comparison, table) if (found := worker_shares(comparison, each))}
    if not known:
        return None
    cards = [card(label, *(_share_lane(rank, of) for rank, of in found.items())) for label, found in known.items()]
    waiting = {label: fmean(of[WAITS] for of in found.values()) for label, found in known.items()}
    least, most = min(waiting, key=lambda one: waiting[one]), max(waiting, key=lambda one: waiting[one])
    said = (
        "Each bar is one worker's time, the number beside it the share that it waited for others; "
        "what is left empty is evaluation, or it was done before the others. "
    )
    if len(waiting) > 1 and waiting[most] - waiting[least] >= 0.01:
        said += (
            f"Here the workers of {most} waited most, {percent(waiting[most])} of their time, "
            f"those of {least} least, {percent(waiting[least])}."
        )
    else:
        said += f"Here the workers of {most} waited {percent(waiting[most])} of their time."
    said += _not_known(comparison, table, set(known)) + _hidden(comparison)
    used = [
        word
        for word in (COMPUTES, READS, WAITS, PAUSED)
        if any(of[word] for found in known.values() for of in found.values())
    ]
    body = joined([activity_legend(used), tag("div", *cards, class_="cards"), _blame(comparison, table)])
    return pictured("Where the workers' time went", body, said)


def worker_shares(comparison: Comparison, contender: Contender) -> dict[int, Shares]:
    """Of each worker that is shown, the mean shares over the seeds; nothing if any is not known."""
    found: dict[int, Shares] = {}
    for worker in shown_workers(comparison.setup, contender.runs[0].workers):
        same = [each for run in contender.runs for each in run.workers if each.rank == worker.rank]
        parts = [_parts(each) for each in same]
        if any(None in part.values() for part in parts):
            return {}
        found[worker.rank] = {word: fmean(part[word] or 0.0 for part in parts) for word in parts[0]}
    return found


def _parts(worker: WorkerFigures) -> dict[str, float | None]:
    return {COMPUTES: worker.computing, READS: worker.reading, WAITS: worker.waiting, PAUSED: worker.paused}


def _share_lane(rank: int, of: Shares) -> Markup:
    parts = [(f"a-{word}", f"worker {rank} {IN_WORDS[word]}, {percent(share)}", share) for word, share in of.items()]
    name = f"what worker {rank} spent its time with"
    return tag("div", tag("span", f"worker {rank}"), shares(name, parts), tag("b", percent(of[WAITS])), class_="lane")


def _not_known(comparison: Comparison, table: Standings, known: set[str]) -> str:
    unknown = [each.label for each in ranked(comparison, table) if each.label not in known]
    return f" Not known of {listed(unknown)}." if unknown else ""


def _hidden(comparison: Comparison) -> str:
    workers = max((run.workers for each in comparison.standing() for run in each.runs), key=len)
    shown = len(shown_workers(comparison.setup, workers))
    return f" Shown are {shown} of {len(workers)} workers, slow ones first." if shown < len(workers) else ""


def _blame(comparison: Comparison, table: Standings) -> Markup:
    """What the live view said last about each slow worker of each contender, in the first seed that had any."""
    items = []
    for each in ranked(comparison, table):
        sentences = next((run.blame for run in each.runs if run.blame), [])
        last = {sentence.partition(":")[0]: sentence for sentence in sentences}
        items += [tag("li", f"{each.label}: {sentence}") for sentence in last.values()]
    return tag("ul", *items, class_="notes") if items else Markup("")


def staleness_section(comparison: Comparison, table: Standings, looks: dict[str, str]) -> Markup | None:
    """How old updates were when they were applied, one histogram for each contender with any that was not fresh."""
    known = {each.label: ages for each in ranked(comparison, table) if (ages := _ages(each)) is not None}
    stale = {label: ages for label, ages in known.items() if any(ages)}
    if not stale:
        return None
    means = {label: sum(age * n for age, n in ages.items()) / sum(ages.values()) for label, ages in stale.items()}
    cards = []
    for label, ages in stale.items():
        words = tag("p", f"{means[label]:.1f} steps on average", class_="soft")
        cards.append(card(label, words, histogram(looks[label], ages)))
    most = max(means, key=lambda label: means[label])
    said = (
        "How many updates were computed from parameters how many steps old, from fresh ones on the left to the "
        f"oldest; each on a scale of its own. Here the updates of {most} are the oldest, {means[most]:.1f} steps on "
        f"average and {max(stale[most])} at most."
    )
    fresh = [label for label in known if label not in stale]
    said += f" Always fresh: {listed(fresh)}." if fresh else ""
    said += _not_known(comparison, table, set(known))
    return pictured("How old updates were", tag("div", *cards, class_="cards"), said)


def _ages(contender: Contender) -> dict[int, int] | None:
    """The ages of all seeds together; None if any seed does not know them. Who noted none had only fresh ones."""
    counted: Counter[int] = Counter()
    for run in contender.runs:
        if run.staleness is None:
            return None
        counted.update({int(age): count for age, count in run.staleness.items()})
    return {age: count for age, count in counted.items() if count}


def timeline_section(comparison: Comparison, table: Standings) -> Markup | None:
    """Who did what when, in a few steps of the first seed of each contender that was looked into."""
    found = {}
    for each in ranked(comparison, table):
        workers = shown_workers(comparison.setup, each.runs[0].workers)
        seen = stretch(workers)
        if seen is not None and seen[1] > seen[0]:
            found[each.label] = (workers, *seen)
    if not found:
        return None
    common = common_length([end - begin for _, begin, end in found.values()])
    cards = [
        card(label, lanes(workers, begin, common or end - begin)) for label, (workers, begin, end) in found.items()
    ]
    waited = {label: share_of(WAITS, workers) for label, (workers, _, _) in found.items()}
    said = [f"{label} {percent(share)}" for label, share in sorted(waited.items(), key=lambda pair: pair[1])]
    scale = "all on the same time scale" if common is not None else "each on its own time scale: look at its ruler"
    if len(found) == 1:
        scale = "a lane for each worker"
    words = {span[0] for workers, _, _ in found.values() for worker in workers for span in worker.spans}
    caption = (
        f"A few steps from the middle of the run with seed {comparison.setup.seeds[0]}, {scale}. In these steps "
        f"workers waited: {', '.join(said)}.{_not_known(comparison, table, set(found))}{_hidden(comparison)}"
    )
    body = joined([activity_legend(sorted(words)), tag("div", *cards, class_="cards broad")])
    return pictured("Who did what when", body, caption)
