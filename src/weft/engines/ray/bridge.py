"""The Ray bridge: the process that uses Ray for a launcher, as `python -m weft.engines.ray.bridge SOCKET FOLDER`.

Ray prints, starts threads and installs signal handlers; in a process of its own that does not disturb the launcher.
When the launcher is gone, however it ended, the socket closes: the bridge then kills its actors, removes their
placement group, and ends a cluster that it started itself.
"""

import selectors
import shutil
import signal
import socket
import sys
import time
from contextlib import ExitStack, suppress
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from weft.engines.ray.actor import WorkerActor
from weft.engines.ray.bridge_messages import (
    Answered,
    Ask,
    BridgeConnection,
    Clear,
    Cleared,
    CommandRefused,
    Lost,
    Place,
    Placed,
    Settle,
    Settled,
    ToBridge,
)
from weft.engines.ray.resources import CPU, GPU, MEMORY, lacking
from weft.engines.ray.upload import EXCLUDED, explained

STORE_BYTES = 80 << 20
"""Size of the object store of a cluster that Weft starts: Weft does not use it, and this is Ray's minimum."""
LOOK_S = 0.05


class Bridge:
    """Handles messages, one after another, until the launcher closes the socket."""

    def __init__(self, line: BridgeConnection) -> None:
        self._line = line
        self._group: PlacementGroup | None = None
        self._actors: list[Any] = []
        self._asked: dict[Any, Ask] = {}
        """Commands under way, by Ray's ObjectRef of their result."""

    def run(self) -> None:
        """Handle messages until the launcher closes the socket."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._line, selectors.EVENT_READ)
            while not self._line.is_closed:
                if selector.select(0 if self._asked else None):
                    for message in self._line.receive():
                        self._do(message)
                if self._asked:
                    self._look()

    def _do(self, message: ToBridge) -> None:
        try:
            if isinstance(message, Settle):
                self._line.send(settle(message))
            elif isinstance(message, Place):
                self._place(message)
            elif isinstance(message, Ask):
                ref = self._actors[message.rank].do.remote(message.command, message.argument)
                self._asked[ref] = message
            else:
                assert isinstance(message, Clear)
                self.clear()
                self._line.send(Cleared())
        except Unable as refusal:
            self._line.send(CommandRefused(str(refusal)))

    def _place(self, message: Place) -> None:
        """Reserve a placement group with a bundle per worker; then start an actor in each."""
        self._group = placement_group(message.bundles, strategy="STRICT_SPREAD" if message.spreads else "PACK")
        deadline_s = time.monotonic() + message.patience_s
        while not self._group.wait(LOOK_S):
            if time.monotonic() > deadline_s or self._line.is_hung_up:
                self.clear()
                nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
                why = lacking(
                    num_workers=len(message.bundles),
                    bundle=message.bundles[0],
                    nodes=nodes,
                    free=ray.available_resources(),
                    waited_s=message.patience_s,
                )
                raise Unable(why)
        for index, bundle in enumerate(message.bundles):
            actor = ray.remote(WorkerActor).options(
                num_cpus=bundle.get(CPU, 0),
                num_gpus=bundle.get(GPU, 0),
                memory=bundle.get(MEMORY),
                resources={name: amount for name, amount in bundle.items() if name not in (CPU, GPU, MEMORY)},
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index),
            )
            self._actors.append(actor.remote())
        self._line.send(Placed())

    def _look(self) -> None:
        """Pass results of commands that have ended to the launcher."""
        ready, _ = ray.wait(list(self._asked), num_returns=1, timeout=LOOK_S)
        for ref in ready:
            ask = self._asked.pop(ref)
            try:
                self._line.send(Answered(ask.rank, ask.command, ray.get(ref)))
            except RayError as error:
                self._line.send(Lost(ask.rank, ask.command, str(error)))

    def clear(self) -> None:
        """Kill all actors, and remove their placement group."""
        for actor in self._actors:
            with suppress(RayError):  # the actor is gone already
                ray.kill(actor)
        if self._group is not None:
            remove_placement_group(self._group)
        self._actors, self._group, self._asked = [], None, {}


class Unable(Exception):
    """A request that cannot be fulfilled; its text is for the user."""


def settle(message: Settle) -> Settled:
    """Connect to the cluster, or start one, with the uploaded folder as working_dir (ray.init)."""
    runtime = {"working_dir": message.folder, "excludes": list(EXCLUDED)}
    quiet = {"log_to_driver": False, "logging_level": "warning", "runtime_env": runtime}
    try:
        if message.address is not None:
            ray.init(message.address, **quiet)
        else:
            ray.init(
                num_cpus=message.resources.get(CPU, 0),
                resources={n: a for n, a in message.resources.items() if n not in (CPU, GPU, MEMORY)},
                include_dashboard=False,
                object_store_memory=STORE_BYTES,
                _temp_dir=message.temporary,
                **quiet,
            )
    except (RayError, OSError, RuntimeError, ValueError) as error:
        raise Unable(explained(error, message.address, message.folder)) from error
    nodes = [f"node:{node['NodeManagerAddress']}" for node in ray.nodes() if node["Alive"]]
    return Settled(str(ray.util.get_node_ip_address()), nodes)


def main() -> None:
    """Serve the launcher at the other end of the socket that the command line names."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides how Ctrl-C ends a run
    temporary = sys.argv[2]
    bridge = Bridge(BridgeConnection(socket.socket(fileno=int(sys.argv[1])), ToBridge))
    with ExitStack() as last:  # callbacks run last to first, each even if one before it failed: the cluster may be gone
        last.callback(shutil.rmtree, temporary, ignore_errors=True)
        last.callback(ray.shutdown)
        last.callback(bridge.clear)
        last.callback(signal.signal, signal.SIGTERM, signal.SIG_IGN)
        bridge.run()


if __name__ == "__main__":
    main()
