"""How long bytes were under way between workers lately, link by link."""

from collections import deque
from math import inf
from statistics import median

from weft.observe.records.status import Status

NETWORK = "network"
WINDOW_STEPS = 10
WINDOW_STEPS_MIN = 5
FIRST_STEPS = 2
STEP_BYTES_MIN = 1000
"""What carries less in a step says nothing of its speed."""
WHOLE_SHARE = 0.4
"""The network as a whole is slow when messages are under way, and workers wait, for so much of a step."""

ROUND_TRIP_S_MIN = 0.0005
"""Shorter ones are those of one machine, and say how busy that is."""
ALIKE = 2.0
"""A worker whose messages take more than so many times as long as others has a link of another kind."""

Direction = tuple[int, int]
"""From one worker to another."""


class Flow:
    """One direction of a link, lately."""

    def __init__(self, network_s: float, num_bytes: float) -> None:
        self.step_s = network_s
        """Under way, in a step."""
        self.byte_s = network_s / num_bytes


class LinkBook:
    """Told the statuses of all workers; both ends of a link tell of what they send."""

    def __init__(self) -> None:
        self._told: dict[int, deque[Status]] = {}
        """By worker: of its last steps, the statuses with links."""

    def hear(self, status: Status) -> None:
        """Take note of a status that came with a step."""
        if not status.links or status.step < FIRST_STEPS:
            return
        told = self._told.setdefault(status.rank, deque())
        told.append(status)
        while len(told) > 2 and told[1].step <= status.step - WINDOW_STEPS:
            told.popleft()

    def flows(self) -> dict[Direction, Flow]:
        """All that is known of links that are in use."""
        flows = {}
        for rank, told in self._told.items():
            first, last = told[0], told[-1]
            steps = last.step - first.step
            if steps < WINDOW_STEPS_MIN:
                continue
            before = {link.peer: link for link in first.links}
            for link in last.links:
                if link.peer not in before:
                    continue
                num_bytes = (link.num_bytes - before[link.peer].num_bytes) / steps
                if num_bytes >= STEP_BYTES_MIN:
                    network_s = (link.network_s - before[link.peer].network_s) / steps
                    flows[rank, link.peer] = Flow(network_s, num_bytes)
        return flows

    def of_worker(self, worker: int) -> tuple[float, float, float] | None:
        """How long messages of a worker are under way in a step, those between the others, and how many times as long.

        The latter is for as many bytes. Where nothing goes between others, it is by what a round trip takes there; None
        where nobody can tell.
        """
        flows = self.flows()
        own = [flow for direction, flow in flows.items() if worker in direction]
        others = [flow for direction, flow in flows.items() if worker not in direction]
        if not own:
            return None
        own_s = median(flow.step_s for flow in own)
        if not others:
            times = self._round_trips(worker)
            return None if times is None else (own_s, own_s / times, times)
        usual_byte_s = median(flow.byte_s for flow in others)
        times = median(flow.byte_s for flow in own) / usual_byte_s if usual_byte_s > 0 else inf
        return own_s, median(flow.step_s for flow in others), times

    def _round_trips(self, worker: int) -> float | None:
        """How many times as long a worker's messages are under way, there and back, as those of others would be."""
        last = {(rank, link.peer): link.round_trip_s for rank, told in self._told.items() for link in told[-1].links}
        own = [round_trip_s for direction, round_trip_s in last.items() if worker in direction]
        others = [round_trip_s for direction, round_trip_s in last.items() if worker not in direction]
        return median(own) / median(others) if own and others and median(others) >= ROUND_TRIP_S_MIN else None

    def of_all(self, step_s: float) -> float | None:
        """How long messages are under way in a step if that is much of it, workers wait for it, and links are alike."""
        found = [self.of_worker(worker) for worker in self._told]
        if any(one is not None and one[2] > ALIKE for one in found):
            return None
        sent_s: dict[int, float] = {}
        for (source, _), flow in self.flows().items():
            sent_s[source] = sent_s.get(source, 0.0) + flow.step_s
        waited = [
            (told[-1].waiting_s - told[0].waiting_s) / (told[-1].time_s - told[0].time_s)
            for told in self._told.values()
            if told[-1].time_s > told[0].time_s
        ]
        if not sent_s or not waited or median(waited) < WHOLE_SHARE:
            return None
        usual_s = min(step_s * median(waited), median(sent_s.values()))
        return usual_s if usual_s >= WHOLE_SHARE * step_s else None
