"""Measures the simulator: peers over ghost stores, events per second, in alternating blocks."""

import time
from collections.abc import Callable
from typing import Any

from weft.bench.statistics import interval
from weft.config.registry import strategy as strategy_of
from weft.core.names import Bucket
from weft.core.recorder import TraceHash
from weft.core.world import World
from weft.cost.links import Link
from weft.engines.calibrate.machine import machine
from weft.sim.compute import PerSample
from weft.sim.network import HostLinks
from weft.sim.program import GhostProgram
from weft.sim.reports import NoReports
from weft.sim.simulation import Simulation
from weft.store.building import ghost_stores

BARS = {"off": 200_000, "on": 100_000}
WORLDS = {"gossip(topology=torus), 64": ("gossip(topology=torus)", 64, 40), "ssp, 64": ("ssp", 64, 120)}


def measure_simulator(blocks: int, tell: Callable[[str], object] = str) -> dict[str, Any]:
    """The report of `weft bench simulator`; `tell` hears which block is being measured."""
    rates: dict[tuple[str, str], list[float]] = {(w, r): [] for w in WORLDS for r in BARS}
    events: dict[str, int] = {}
    for block in range(blocks):
        tell(f"simulator: block {block + 1} of {blocks}")
        for world, recorder in rates:
            text, num_workers, num_steps = WORLDS[world]
            simulation = ghost_simulation(text, num_workers, num_steps, TraceHash() if recorder == "on" else None)
            start = time.perf_counter()
            facts = simulation.run()
            rates[world, recorder].append(facts.num_events / (time.perf_counter() - start))
            events[world] = facts.num_events
    rows = []
    for (world, recorder), measured in rates.items():
        middle, low, high = interval(measured)
        rows.append(
            {
                "world": world,
                "recorder": recorder,
                "events": events[world],
                "events_per_s": middle,
                "low": low,
                "high": high,
                "bar": BARS[recorder],
            }
        )
    return {"benchmark": "simulator", "machine": machine(), "rows": rows, "ratios": {}}


def ghost_simulation(text: str, num_workers: int, num_steps: int, recorder: TraceHash | None) -> Simulation:
    """A world without tensors: one bucket of 40 kB, constant speeds, 1 Gbit/s."""
    strategy = strategy_of(text)
    roles = strategy.roles(num_workers)
    hosts = tuple(i % num_workers for i in range(sum(roles)))
    world = World(roles, (Bucket(10_000),), strategy.graph(num_workers), hosts)
    stores = ghost_stores(strategy, world)
    programs = [GhostProgram([8] * 10, num_steps) for _ in range(num_workers)]
    network = HostLinks(hosts, [Link(5e-4, 125e6)] * num_workers, Link(5e-6, 5e9))
    compute = PerSample([1e-3] * num_workers)
    return Simulation(strategy, world, stores, programs, network, compute, NoReports(), 0, recorder)
