"""Makes a worker of a script that torchrun, srun or Kubernetes has started: it finds the others and takes a seat.

All processes meet at a rendezvous. Worker 0 starts the run's controller, the first worker of each host its host agent.

Threads: the script's own, and "weft lifeline", which only polls the channel for POLLRDHUP and ends the process when the
host agent has closed its end. Signal handlers write one byte to a pipe that the host agent reads.
"""

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import Meta, Struct

from weft.config.extras import check_extra
from weft.config.options import TORCHRUN as BY_TORCHRUN
from weft.config.options import check_takes, set_options
from weft.config.registry import strategy as strategy_of
from weft.config.settings import Settings
from weft.core.errors import ConfigError, TransportError, WeftError
from weft.core.leaving import ScriptLeft, code_of, exit_code
from weft.core.seat import Seat, sit
from weft.engines.hosts import timeouts
from weft.engines.hosts.agent import AgentOrders
from weft.engines.hosts.agent_socket import meet
from weft.engines.hosts.interfaces import VARIABLE, own_address
from weft.engines.hosts.launch_env import LaunchPlacement
from weft.engines.hosts.rendezvous import Rendezvous, post_note, read_notes
from weft.engines.hosts.script_exit import ScriptExit
from weft.engines.hosts.worker_info import (
    Words,
    WorkerInfo,
    check_addresses,
    check_alike,
    check_places,
    host_numbers,
    settled,
    worker_info,
)
from weft.engines.real.child_processes import start_apart
from weft.engines.real.seat_factory import seat_of
from weft.engines.real.secret import VARIABLE as SECRET_VARIABLE
from weft.engines.real.secret import WRITE_ONE, new_secret, read_secret, secret_of_run
from weft.engines.settings_sources import settings_of
from weft.parent_death import die_with_parent
from weft.runtime.channel import Channel
from weft.runtime.descriptors import Descriptors
from weft.runtime.measure.script_watch import watch_script
from weft.runtime.messages import WorkerJob
from weft.runtime.seats.engine_seat import EngineSeat
from weft.transports.door import listen

TORCHRUN = "TORCHELASTIC_RUN_ID"


class Lead(Struct, frozen=True):
    """From worker 0 to all: the controller's address, and the run token, which names the host agents' sockets."""

    host: Words
    port: Annotated[int, Meta(ge=1, le=65535)]
    token: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]


class ControllerOrders(Struct, frozen=True, kw_only=True):
    """What the controller of a run reads from its standard input."""

    script: str
    settings: dict[str, Any]
    infos: list[WorkerInfo]
    secret: bytes
    listener: int
    """The descriptor of the listening socket to which host agents connect; the controller inherits it."""


def join_run(placed: LaunchPlacement, rendezvous: Rendezvous, environ: MutableMapping[str, str]) -> Seat:
    """Meet the other workers of this run at the rendezvous, and take this worker's seat.

    The job's secret is removed from `environ`, so that processes that the script starts do not inherit it.
    """
    script, settings = Path(sys.argv[0]), settings_of(Settings())
    if settings.strategy is not None and len(settings.strategy) > 1:
        names = ", ".join(settings.strategy)
        raise ConfigError(f"'{names}' are several strategies, but this run has one.\n  Name one.")
    check_takes(BY_TORCHRUN, settings.set or ())
    options, _ = set_options(settings.set or ())  # this and the next raise ConfigError before any process starts
    if settings.strategy is not None:
        strategy_of(settings.strategy[0], options.reduce.collective)  # raises ConfigError for a bad strategy
    if TORCHRUN in environ:  # a torchrun that is killed leaves its workers running; srun does not
        die_with_parent()
    infos = _gather(placed, rendezvous, script, settings, environ)
    hosts = host_numbers(infos)
    if len(set(hosts)) > 1:
        check_extra("tls", "a run on several hosts")
    job_secret = _secret_for(infos, environ)
    environ.pop(SECRET_VARIABLE, None)
    if placed.rank == 0:
        token = token_hex(16)
        controller = _start_controller(script, settings, infos, secret_of_run(job_secret, placed.run, token))
        post_note(rendezvous, "lead", Lead(*controller, token))
    (lead,) = read_notes(rendezvous, ["lead"], Lead, timeouts.NOTE_S_MAX)
    secret = secret_of_run(job_secret, placed.run, lead.token)
    mine = [each for each in infos if hosts[each.rank] == hosts[placed.rank]]
    agent = None
    if mine[0].rank == placed.rank:
        pids = {each.rank: each.pid for each in mine}
        controller, is_encrypted = (lead.host, lead.port), len(set(hosts)) > 1
        orders = AgentOrders(
            host=hosts[placed.rank],
            pids=pids,
            token=lead.token,
            controller=controller,
            secret=secret,
            is_encrypted=is_encrypted,
            placed=placed,
        )
        agent = start_apart("the host agent", ["weft.engines.hosts.agent"], msgspec.json.encode(orders))
    seat = take_seat(lead.token, hosts[placed.rank], placed.rank, started=agent, is_last=True)
    Ending(seat)
    return seat  # type: ignore[return-value]


def _gather(
    placed: LaunchPlacement, rendezvous: Rendezvous, script: Path, settings: Settings, environ: Mapping[str, str]
) -> list[WorkerInfo]:
    """Post this worker's info and read those of all workers; raises if a rank is taken twice or infos do not fit."""
    me = worker_info(placed.rank, own_address(environ.get(VARIABLE), placed.host, placed.port), script, settings)
    if rendezvous.claim(f"rank {placed.rank}") > 1:
        (first,) = read_notes(rendezvous, [f"present/{placed.rank}"], WorkerInfo, timeouts.NOTE_S_MAX)
        raise ConfigError(
            f"rank {placed.rank} is there twice: process {first.pid} on host {first.host} came first, this is process "
            f"{me.pid} on host {me.host}.\n  Give every process a rank of its own. {_attempt(placed)}"
        )
    post_note(rendezvous, f"present/{placed.rank}", me)
    names = [f"present/{rank}" for rank in range(placed.num_workers)]
    _wait_for(placed, rendezvous, names)
    infos = read_notes(rendezvous, names, WorkerInfo, timeouts.NOTE_S_MAX)
    check_places(infos)
    check_alike(infos)
    check_addresses(infos)
    return settled(infos)


def _wait_for(placed: LaunchPlacement, rendezvous: Rendezvous, names: Sequence[str]) -> None:
    """Block until the notes `names` are posted; every ALL_JOINED_TOLD_S, worker 0 prints which ones are missing."""
    deadline_s = time.monotonic() + timeouts.ALL_JOINED_S_MAX
    while (lack := _lack(rendezvous, names)) is not None:
        if time.monotonic() >= deadline_s:
            raise TransportError(f"{lack}\n  {_attempt(placed)}")
        if placed.rank == 0:
            print(f"weft: some workers have not called weft.join yet: {lack}", file=sys.stderr, flush=True)


def _lack(rendezvous: Rendezvous, names: Sequence[str]) -> TransportError | None:
    """The error that names the notes that are still missing after ALL_JOINED_TOLD_S; None when all are posted."""
    try:
        rendezvous.read(names, min(timeouts.ALL_JOINED_TOLD_S, timeouts.ALL_JOINED_S_MAX))
    except TransportError as error:
        return error
    return None


def _attempt(placed: LaunchPlacement) -> str:
    return (
        f"This is attempt '{placed.run}': an engine that restarts some hosts, and does not count alike on all of them, "
        "has to restart all."
    )


def _secret_for(infos: Sequence[WorkerInfo], environ: Mapping[str, str]) -> bytes:
    """The job's secret from the environment. A run on several hosts must have one; on one host, it may be made here."""
    hosts = list(dict.fromkeys(each.host for each in infos))
    secret = read_secret(environ)
    if secret is None and len({each.home for each in infos}) > 1:
        raise ConfigError(f"this run is on {len(hosts)} hosts ({', '.join(hosts)}) and has no secret.\n  {WRITE_ONE}")
    return secret or new_secret()


def _start_controller(script: Path, settings: Settings, infos: list[WorkerInfo], secret: bytes) -> tuple[str, int]:
    """Start the run's controller on this host; returns its address and port."""
    with listen(infos[0].address) as listener:
        host, port = listener.getsockname()[:2]
        said = {name: value for name, value in asdict(settings).items() if value is not None}
        orders = ControllerOrders(
            script=str(script), settings=said, infos=infos, secret=secret, listener=listener.fileno()
        )
        start_apart("the run's controller", ["weft.controller_main"], msgspec.json.encode(orders), [listener.fileno()])
    return host, port


def take_seat(
    token: str,
    host: int,
    rank: int,
    written: Sequence[int] = (),
    started: "subprocess.Popen[bytes] | None" = None,
    *,
    is_last: bool = False,
) -> EngineSeat:
    """Connect to the host agent, receive channel and shared memory from it, and take the seat of worker `rank`.

    `started` is the agent's process if this worker started it. `written` are pipes with this worker's output.
    `is_last` makes this process end after its host agent: Slurm kills all processes of a step when its last task ends.
    """
    channel_fd, memories, signals = meet(token, host, rank, list(written), timeouts.AGENT_MEETS_S_MAX, started)
    end = socket.socket(fileno=channel_fd)
    channel = Channel(end)
    told = receive_job(channel, end, timeouts.PART_TOLD_S_MAX)
    job = msgspec.structs.replace(told, descriptors=Descriptors.of(memories))
    seat = seat_of(job, channel)
    sit(seat)  # type: ignore[arg-type]
    watch_script(seat, channel)
    os.register_at_fork(after_in_child=die_with_parent)  # a DataLoader's processes end with the worker, even on SIGKILL
    pass_signals_on(signals)
    threading.Thread(target=end_with_engine, args=(seat, channel), name="weft lifeline", daemon=True).start()
    if is_last:
        seat.await_engine = partial(wait_for_reader, signals)
    return seat


def receive_job(channel: Channel, end: socket.socket, timeout_s: float) -> WorkerJob:
    """Receive the WorkerJob, which is the first message on a worker's channel; `end` is the channel's socket.

    Raises TransportError if nothing comes within `timeout_s`.
    """
    deadline_s = time.monotonic() + timeout_s
    end.settimeout(timeout_s)
    job = next(iter(channel.receive(wait=True)), None)
    if isinstance(job, WorkerJob):
        end.settimeout(None)
        return job
    if time.monotonic() < deadline_s:
        raise WeftError("the run ended before this worker had its part in it.\n  What its controller printed says why.")
    raise TransportError(
        f"this worker was not told its part in the run for {timeout_s:g} s.\n"
        f"  The host agent (pid {channel.maker}) may be stopped, or the run's controller, on worker 0's host."
    )


def end_with_engine(seat: EngineSeat, channel: Channel) -> None:
    """Wait until the engine closes its end (POLLRDHUP); then end this process, even while the script computes.

    POLLRDHUP alone is polled: it consumes nothing, so the script's thread stays the only reader of the channel.
    """
    poller = select.poll()
    poller.register(channel.fileno(), select.POLLRDHUP)
    poller.poll()
    time.sleep(timeouts.LOST_ENGINE_NOTICED_S)
    if not channel.is_finished:
        seat.lose_engine()


def wait_for_reader(pipe: int, timeout_s: float = timeouts.AGENT_ENDED_S_MAX) -> None:
    """Block until the host agent, which reads from `pipe`, has ended (POLLERR), for `timeout_s` at most."""
    poller = select.poll()
    poller.register(pipe, 0)  # POLLERR (no reader is left) is reported even with an empty event mask
    poller.poll(timeout_s * 1000)


def pass_signals_on(pipe: int, clock: Callable[[], float] = time.monotonic) -> None:
    """From now on, SIGINT and SIGTERM ask the run to end in order, by a byte written to `pipe`."""
    last_s = -timeouts.ONE_SIGNAL_S

    def tell(number: int, frame: Any) -> None:
        nonlocal last_s
        if clock() - last_s >= timeouts.ONE_SIGNAL_S:
            last_s = clock()
            try:
                os.write(pipe, b"!")
            except OSError:  # EPIPE: the host agent has ended
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, tell)


class Ending:
    """Ends the worker when its script ends, by atexit and sys.excepthook, since Weft does not run the script itself.

    A script that returns ends the worker in order; one that raises tells the engine its error first.
    """

    def __init__(self, seat: EngineSeat) -> None:
        self._seat = seat
        self._failed_by: BaseException | None = None
        self._show = sys.excepthook
        sys.excepthook = self._fail
        self._exit = ScriptExit()
        atexit.register(self._end)

    def _fail(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._failed_by = error
        self._tell(kind, error, trace)

    def _tell(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        try:
            self._seat.fail(error)
            is_told = isinstance(error, WeftError | ScriptLeft)  # the host agent prints it once for all its workers
        except TransportError:
            is_told = False
        if not is_told:
            self._show(kind, error, trace)

    def _end(self) -> None:
        if self._failed_by is not None:
            self._break_off(self._failed_by)
        try:
            if exit_code(self._exit.code):
                raise ScriptLeft(self._exit.code)
            self._seat.end()
            self._seat.leave()
        except BaseException as error:
            self._tell(type(error), error, error.__traceback__)
            self._break_off(error)

    def _break_off(self, error: BaseException) -> NoReturn:
        """End this process with the exit code of `error`.

        An error of the script ends it at once, so that torchrun or srun sees this worker fail first; an error of Weft
        only after the host agent, which prints the reason, has ended.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        if isinstance(error, WeftError):
            self._seat.leave()
        os._exit(code_of(error))
