"""Kills and stops processes of runs in all moments, by seed, and looks how the runs go on, or end: `make soak`.

Of most runs workers are killed, and the others go on (soak_survived.py): no hang, nothing left, each victim named,
replaced if that was asked for, and the samples of all committed steps counted. Of some, the fault ends the run
(soak_ends.py). Prints a line for each run, what those wrote that missed a bar, and tables; exit code 1 if any did.
One is tried again by its seed, kind and number: `--seed 0 --only survived:17`.
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple

import faults
import survived_kills
from faults import KILL, STOP, Fault, fault
from soak_ends import tried
from soak_leftovers import MARK
from soak_survived import survive
from survived_kills import NUM_KILLS, KilledRun, killed_run

SURVIVED = "survived"
TITLES = {SURVIVED: "survived", KILL: "ended, kill", STOP: "ended, stop"}
TEXT_MAX = 1500
"""Characters of what a run wrote that are shown if it missed a bar."""
IMPORTED = ("torch.optim", "torch.utils.data", "torch._dynamo")
"""By a lane, for all its runs: they are forked from it."""


class Ran(NamedTuple):
    """What came of one run."""

    kind: str
    number: int
    took_s: float
    missed: list[str]
    text: str

    def drawn(self, seed: int) -> Fault | KilledRun:
        return killed_run(seed, self.number) if self.kind == SURVIVED else fault(seed, self.kind, self.number)

    def struck(self, seed: int) -> list[tuple[str, str]]:
        """The moment and the ground of each of its kills or stops."""
        drawn = self.drawn(seed)
        if isinstance(drawn, Fault):
            return [(drawn.moment, drawn.ground)]
        return [(kill.moment, drawn.ground) for kill in drawn.kills]


def table(kind: str, ran: list[Ran], seed: int) -> str:
    """How many kills or stops went well in which moment of which ground, of how many, and the longest run's time."""
    drawn = survived_kills if kind == SURVIVED else faults
    each = [(place, one) for one in ran if one.kind == kind for place in one.struck(seed)]
    lines = [f"{TITLES[kind]:12s}" + "".join(f"{ground:>18s}" for ground in drawn.GROUNDS)]
    for moment in drawn.MOMENTS:
        cells = [[one for place, one in each if place == (moment, ground)] for ground in drawn.GROUNDS]
        lines.append(f"{moment:12s}" + "".join(f"{_cell(cell):>18s}" for cell in cells))
    return "\n".join(lines)


def _cell(ran: list[Ran]) -> str:
    if not ran:
        return "-"
    return f"{sum(not one.missed for one in ran)}/{len(ran)} {max(one.took_s for one in ran):.1f} s"


def main() -> int:
    """All runs; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=501, help="kills that are survived, three in each run")
    parser.add_argument("--ends", type=int, default=60, help="kills that end a run")
    parser.add_argument("--stops", type=int, default=40, help="stops that end a run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=2, help="how many runs go on at the same time")
    parser.add_argument("--only", help="some runs, such as survived:17,kill:3, with all that they wrote")
    asked = parser.parse_args()
    if MARK in os.environ:
        return soak(asked.seed, asked.only.split(","))
    numbers = {SURVIVED: asked.kills // NUM_KILLS, KILL: asked.ends, STOP: asked.stops}
    wanted = asked.only.split(",") if asked.only else [f"{kind}:{n}" for kind in numbers for n in range(numbers[kind])]
    Random(asked.seed).shuffle(wanted)  # or one lane would have all runs of a kind
    lanes = [wanted[lane :: asked.lanes] for lane in range(asked.lanes)]
    began_s, started = time.monotonic(), [_start_lane(asked.seed, lane) for lane in lanes if lane]
    with ThreadPoolExecutor(asked.lanes) as threads:
        heard = threads.map(lambda lane: list(_heard(lane, asked.seed, whole=bool(asked.only))), started)
    ran = [one for lane in heard for one in lane]
    for kind in numbers:
        print(f"\n{table(kind, ran, asked.seed)}")
    missed = [one for one in ran if one.missed]
    num_struck = sum(len(one.struck(asked.seed)) for one in ran)
    print(f"\n{num_struck} kills and stops in {len(ran)} of {len(wanted)} runs, {time.monotonic() - began_s:.0f} s")
    print(f"runs that missed a bar: {len(missed) or 'none'}")
    for one in missed:
        print(f"  --seed {asked.seed} --only {one.kind}:{one.number}  {one.drawn(asked.seed)}: {', '.join(one.missed)}")
    return 1 if missed or len(ran) < len(wanted) else 0


def _start_lane(seed: int, wanted: list[str]) -> "subprocess.Popen[str]":
    """This program once more, for some of the runs, with a mark by which everything that it starts is found."""
    command = [sys.executable, __file__, "--seed", str(seed), "--only", ",".join(wanted)]
    marked = {**os.environ, MARK: secrets.token_hex(8)}
    return subprocess.Popen(command, env=marked, stdout=subprocess.PIPE, text=True)


def _heard(lane: "subprocess.Popen[str]", seed: int, *, whole: bool) -> Iterator[Ran]:
    """What a lane tells of its runs, one by one; shown as it comes."""
    assert lane.stdout is not None
    with lane:
        for line in lane.stdout:
            ran = Ran(*json.loads(line))
            said = ", ".join(ran.missed) or "ok"
            print(f"{TITLES[ran.kind]:11s} {ran.drawn(seed)}: {ran.took_s:.2f} s  {said}", flush=True)
            if whole or ran.missed:
                print(ran.text if whole else ran.text[-TEXT_MAX:], flush=True)
            yield ran


def soak(seed: int, wanted: list[str]) -> int:
    """One lane: these runs, one after the other, each told in a line."""
    import torch

    for name in IMPORTED:
        __import__(name)
    torch.set_num_threads(1)
    for kind, _, number in (each.partition(":") for each in wanted):
        print(json.dumps(_ran(seed, kind, int(number))), flush=True)
    return 0


def _ran(seed: int, kind: str, number: int) -> Ran:
    if kind == SURVIVED:
        survived = survive(killed_run(seed, number))
        return Ran(kind, number, survived.took_s, survived.missed, survived.text)
    with tempfile.TemporaryDirectory() as folder:
        ended = tried(fault(seed, kind, number), Path(folder))
    return Ran(kind, number, ended.took_s, ended.missed, ended.text)


if __name__ == "__main__":
    sys.exit(main())
