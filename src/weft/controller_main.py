"""The process of a run's controller, as `python -m weft.controller_main`, with its orders on standard input.

Worker 0 of a run that torchrun, srun or Kubernetes has started starts it. It stands beside the command line, above the
engines: it shows the run as `weft run` does.
"""

import signal
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec

from weft.cli.show.command_errors import command_errors
from weft.cli.show.live_run import watched
from weft.cli.show.runs import show_runs
from weft.cli.show.screen import errors
from weft.config.options import set_options, with_parameters
from weft.config.settings import Settings, read_settings
from weft.core.errors import WeftError
from weft.data.shares import STATIC
from weft.engines.hosts.bootstrap import ControllerOrders
from weft.engines.hosts.controller import Controller
from weft.engines.hosts.worker_info import host_numbers
from weft.engines.real.job import RealJob
from weft.engines.real.session import DEFAULT_STRATEGY
from weft.runtime.connections import SHM


def main() -> int:
    """Lead the run that standard input describes; the exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))  # workers pass on what they are told
    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=ControllerOrders)
    settings = read_settings(orders.settings, "the run") if orders.settings else Settings()
    options, parameters = set_options(settings.set or ())
    hosts = host_numbers(orders.infos)
    job = RealJob(
        script=Path(orders.script),
        arguments=(),
        num_workers=len(orders.infos),
        strategy=_strategy(settings, parameters),
        collective=options.reduce.collective,
        compress=settings.compress,
        transport=settings.transport or SHM,
        hiccups=options.worker.hiccups,
        global_batch=options.data.global_batch,
        options=options,
        share=settings.share or STATIC,
        seed=settings.seed or 0,
        steps_max=settings.steps,
        hosts=tuple(hosts) if any(hosts) else (),
    )
    with socket.socket(fileno=orders.listener) as listener, ExitStack() as farewell:
        with watched(job.num_workers, job.label) as observer:
            leading = Controller(job, observer, orders.infos, listener, orders.secret)
            farewell.callback(leading.close)
            try:
                outcome = leading.run()
            except (WeftError, KeyboardInterrupt):  # every host's agent says why
                return 1
        row = outcome.to_json()
        show_runs([row])  # before host agents, and with them workers, are let go: this ends with them
        if outcome.was_stopped:
            errors.print(f"stopped early, as asked, after {row['steps']} steps", markup=False)
    return 0


def _strategy(settings: Settings, parameters: dict[str, str]) -> str | None:
    """The one that was asked for, with its parameters; None leaves it to the script."""
    if settings.strategy is None and not parameters:
        return None
    return with_parameters(settings.strategy[0] if settings.strategy else DEFAULT_STRATEGY, parameters)


if __name__ == "__main__":
    with command_errors():
        sys.exit(main())
