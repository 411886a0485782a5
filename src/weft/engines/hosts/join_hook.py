"""The join hook: finds a seat for a script that was started by torchrun, srun or Kubernetes rather than by Weft."""

import os
import sys
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from weft.config.extras import check_extra
from weft.core.errors import ConfigError, WeftError
from weft.core.seat import Seat
from weft.engines.checkpointed_script import VARIABLE, seat_with_checkpoints
from weft.engines.hosts import timeouts
from weft.engines.hosts.launch_env import placement
from weft.engines.hosts.siblings import watched_siblings


def find_seat() -> Seat | None:
    """The seat of this process in its run; None if no launcher has set a placement in the environment."""
    placed = placement(os.environ)
    if placed is None:
        return seat_with_checkpoints()
    if os.environ.get(VARIABLE):
        raise ConfigError(
            f"{VARIABLE} is for scripts that python or weft run starts, but a launcher (torchrun, srun) started this "
            "one.\n  Leave it out, and save what is needed with worker.save."
        )
    check_extra("torch", "a run of processes that torchrun or srun has started")
    with watched_siblings(placed):
        from weft.adapters.torch.rendezvous import TorchRendezvous  # torch is an optional dependency
        from weft.engines.hosts.bootstrap import join_run

        sys.excepthook = partial(_show_briefly, placed.rank, sys.excepthook)
        rendezvous = TorchRendezvous.at(
            placed.host, placed.port, placed.run, is_host=placed.hosts_store, timeout_s=timeouts.STORE_S_MAX
        )
        return join_run(placed, rendezvous, os.environ)


def _show_briefly(
    rank: int,
    show: Callable[..., Any],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """A sys.excepthook that prints Weft's own errors without a traceback, which every worker would repeat."""
    if isinstance(error, WeftError):
        print(f"weft: worker {rank}: {error}", file=sys.stderr, flush=True)
    else:
        show(kind, error, trace)
