"""The steward of a host: has the memory that its workers share, watches them, and passes on what they say.

Started by the host's first worker as `python -m weft.engines.hosts.agent`, with its orders on standard input. It ends when
all workers of its host have ended, however they did; when it or the head of the run is gone, its workers end.
"""

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from math import inf

import msgspec
from msgspec import Struct

from weft.core.errors import TransportError, WeftError
from weft.engines.hosts.agent_link import (
    HEAD,
    STALLED_S,
    Asked,
    Beat,
    Because,
    Came,
    Gone,
    Kill,
    Pulse,
    Relayed,
    Said,
    Tell,
    Trunk,
    Values,
    Wrote,
)
from weft.engines.hosts.agent_socket import Hello, place_of
from weft.engines.hosts.agent_worker import Ward
from weft.engines.hosts.launch_env import Placement
from weft.engines.hosts.siblings import rank_in
from weft.engines.local.fork_server import Order, send_fds
from weft.engines.real.child_processes import say
from weft.engines.real.host_memory import make_memories
from weft.engines.real.stopped_processes import STOPPED_S, Stops, process_state
from weft.engines.real.worker_output import Output
from weft.observe.records.status import Status
from weft.runtime.channel import Concluded, Failed, Joined, Leaving, peer_of
from weft.runtime.initial_values import add_piece, pieces
from weft.transports.dialing import dial

CONNECT_S_MAX = 30.0
PULSE_S = 0.2
HELLO_S_MAX = 0.5
HEAD_S_MAX = 5.0
"""How long nothing may be heard of the head before it has said how long."""
LAST_WORDS_S_MAX = 5.0
"""How long what was said last may take to leave."""
ORPHANS_S = 1.0
"""How long workers may take to end once the head is gone."""
BACKLOG_BYTES_MAX = 4 << 20
"""While more than this waits for the head, statuses are left out: newer ones will come."""


class Orders(Struct, frozen=True):
    """What a steward is told. The secret never stands on a command line."""

    host: int
    """The number of this host."""
    pids: dict[int, int]
    """The process of each of its workers, by rank."""
    meeting: str
    """Under what name its workers find it."""
    head: tuple[str, int]
    secret: bytes
    is_encrypted: bool
    """There are other hosts."""
    placed: Placement | None = None
    """Where the engine has put the worker that starts this steward, if its environment says so."""


class Steward:
    """Everything that one host's workers need of their engine."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._because = self._last_words = ""
        self._concluded: set[int] = set()
        """Workers whose run ended well."""
        self._selector = selectors.DefaultSelector()
        self._memories = make_memories(len(orders.pids))
        self._initial = self._memories[2]
        self._wards: dict[int, Ward] = {}
        self._leaving: list[Ward] = []
        """Those that wait for the end of this process."""
        self._values: Iterator[bytes] = iter(())
        """What is left of worker 0's first values to send, and its word that it has joined, which comes after."""
        self._values_start = 0
        self._joined: Said | None = None
        self._patience_s = HEAD_S_MAX
        self._orphaned_s = inf
        """When workers that have not ended without a head are killed."""
        self._turned_s = time.monotonic()
        for rank, pid in sorted(orders.pids.items()):
            self._take_in(rank, pid)
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.bind(place_of(orders.meeting, orders.host))
        self._door.listen(len(orders.pids))
        self._selector.register(self._door, selectors.EVENT_READ, self._answer_door)
        tls = None
        if orders.is_encrypted:
            from weft.transports.certificates import Authority, contexts

            tls = contexts(Authority.of(orders.secret).issue(orders.host)).call
        about = orders.head, orders.host, HEAD, orders.secret, tls, CONNECT_S_MAX
        sock = dial(*about, who="the head of the run")
        self._trunk = Trunk(sock, self._selector, self._hear_head, self._lose_head)

    def _take_in(self, rank: int, pid: int) -> None:
        try:
            ward = self._wards[rank] = Ward(rank, pid)
        except ProcessLookupError:  # it has ended before anybody could look after it
            return
        self._selector.register(ward.pidfd, selectors.EVENT_READ, partial(self._bury, rank))

    def run(self) -> None:
        """Serve until all workers of this host have ended; then tell why, if the run has failed."""
        for rank in self._orders.pids.keys() - self._wards.keys():
            self._trunk.send(Gone(rank))
        pulse_s = 0.0
        while self._wards:
            self._turn()
            if time.monotonic() >= pulse_s:
                pulse_s = time.monotonic() + PULSE_S
                self._trunk.send(Pulse({rank: process_state(ward.pid) for rank, ward in self._wards.items()}))
            if time.monotonic() >= self._orphaned_s:
                self._kill()
        deadline_s = time.monotonic() + LAST_WORDS_S_MAX
        while not self._trunk.is_closed and time.monotonic() < deadline_s:  # the head hangs up when it has heard all
            self._turn()
        if not self._because and not self._trunk.is_closed and self._concluded < self._orders.pids.keys():
            self._because = f"weft: the head of the run is silent. {self._last_words}"
        self._end_stopped()
        if self._because:
            print(self._because, file=sys.stderr, flush=True)

    def _end_stopped(self) -> None:
        """Kill those of the workers which wait for this process to end that are stopped: they would never end."""
        stops = Stops[int]()
        while stopped := stops.see({ward.rank: process_state(ward.pid) for ward in self._leaving}, time.monotonic()):
            for ward in (ward for ward in self._leaving if stopped.get(ward.rank, 0.0) > STOPPED_S):
                say(
                    f"weft: worker {ward.rank} (pid {ward.pid}) is stopped after its script had ended: it is ended.\n"
                    "  Find out who stopped it."
                )
                ward.kill()
            time.sleep(PULSE_S / 2)

    def _turn(self) -> None:
        """Do what there is to do, and notice it if the head is silent: unless it was this process that was held up."""
        was_held_up = time.monotonic() - self._turned_s > STALLED_S
        for key, _ in self._selector.select(PULSE_S / 2):
            key.data()
        self._turned_s = time.monotonic()
        for ward in self._wards.values():
            ward.flush()
        self._send_values()
        silence_s = self._turned_s - self._trunk.heard_s
        if was_held_up:
            self._trunk.heard_s = self._turned_s
        elif not self._trunk.is_closed and silence_s > self._patience_s:
            self._trunk.close()
            self._lose_head(f"nothing was heard of it for {silence_s:.1f} s")

    def close(self) -> None:
        """Let go of everything."""
        self._trunk.close()
        self._door.close()
        for ward in (*self._wards.values(), *self._leaving):
            ward.close()
        for fd in self._memories:
            os.close(fd)
        self._selector.close()

    def _answer_door(self) -> None:
        """Let a worker of this host in: it is who it says if the system says so."""
        end, _ = self._door.accept()
        fds: list[int] = []
        with end:
            try:
                fds = self._let_in(end)
            except (OSError, msgspec.DecodeError, TransportError) as error:  # whoever it is hears that it is not let in
                print(f"weft: a process is not let in by the steward: {error}", file=sys.stderr, flush=True)
        for fd in fds:
            os.close(fd)

    def _let_in(self, end: socket.socket) -> list[int]:
        """Give a worker its channel and memory; what is left of the descriptors that it brought."""
        pid, uid = peer_of(end)
        ward = next((ward for ward in self._wards.values() if ward.pid == pid and ward.channel is None), None)
        if uid != os.geteuid() or ward is None:
            raise TransportError(f"process {pid} of user {uid} is no worker that is awaited here")
        end.settimeout(HELLO_S_MAX)
        raw, fds, _, _ = socket.recv_fds(end, 1 << 10, 3)
        if not fds or msgspec.json.decode(raw, type=Hello).rank != ward.rank:
            return fds
        mine, theirs = socket.socketpair()
        with theirs:
            handed = [theirs.fileno(), *self._memories]
            try:
                send_fds(end, msgspec.json.encode(Order(num_workers=1, num_fds=len(handed))), handed)
            except OSError:  # it died meanwhile, which its system will tell
                mine.close()
                return fds
        self._attend(ward, mine, fds)
        return []

    def _attend(self, ward: Ward, end: socket.socket, fds: Sequence[int]) -> None:
        ward.let_in(end, fds)
        self._selector.register(ward.signals, selectors.EVENT_READ, partial(self._hear_signals, ward))
        for descriptor, is_error in zip(fds[1:], (False, True), strict=False):
            output = Output(descriptor, partial(self._pass_line, ward.rank, is_error))
            ward.outputs.append(output)
            self._selector.register(descriptor, selectors.EVENT_READ, partial(self._copy, output))
        self._selector.register(end, selectors.EVENT_READ, partial(self._hear, ward))
        self._trunk.send(Came(ward.rank, ward.pid))

    def _hear(self, ward: Ward) -> None:
        channel = ward.channel
        if channel is None or channel.is_closed or ward.rank not in self._wards:
            return
        for message in channel.receive(wait=False):
            if isinstance(message, Leaving):
                self._leaving.append(ward)
                self._let_go(ward)
                return
            if isinstance(message, Status) and self._trunk.waiting_bytes > BACKLOG_BYTES_MAX:
                continue
            if isinstance(message, Concluded):
                self._concluded.add(ward.rank)
            elif isinstance(message, Failed):
                self._last_words = f"Worker {ward.rank} failed at step {message.step}: {message.text}"
            said = Said(ward.rank, message)
            if isinstance(message, Joined) and ward.rank == 0 and self._orders.is_encrypted:
                self._values, self._joined = pieces(self._initial), said  # it says nothing more until it is answered
                self._values_start = 0
                self._send_values()
            else:
                self._trunk.send(said)
        if channel.is_closed and channel.fileno() >= 0:  # else the head was lost in the midst, and nobody is heard
            self._selector.unregister(channel.fileno())
            channel.close()

    def _send_values(self) -> None:
        """Send on what worker 0 wrote for all to begin with, as the head takes it; that it has joined comes last."""
        while self._joined is not None and self._trunk.waiting_bytes < BACKLOG_BYTES_MAX:
            piece = next(self._values, None)
            if piece is None:
                self._trunk.send(self._joined)
                self._joined = None
            else:
                self._trunk.send(Values(self._values_start, piece))
                self._values_start += len(piece)

    def _hear_signals(self, ward: Ward) -> None:
        if ward.rank not in self._wards:
            return
        raw = os.read(ward.signals, 64)
        if not raw:
            self._selector.unregister(ward.signals)
            return
        ward.times_asked += len(raw)
        self._trunk.send(Asked(ward.rank, ward.times_asked))

    def _pass_line(self, rank: int, is_error: bool, text: str) -> None:
        self._trunk.send(Wrote(rank, text, is_error))

    def _copy(self, output: Output) -> None:
        if not output.is_closed and not output.read():
            self._selector.unregister(output.fileno())
            output.close()

    def _bury(self, rank: int) -> None:
        """A worker has ended: pass on its last words first."""
        ward = self._wards.get(rank)
        if ward is None:
            return
        self._hear(ward)
        if rank not in self._wards:  # it had said that it leaves
            return
        for output in ward.outputs:
            while not output.is_closed and _has_come(output.fileno()):
                self._copy(output)
        self._let_go(ward)

    def _let_go(self, ward: Ward) -> None:
        """Nothing more is to be expected of a worker."""
        watched = [ward.pidfd, ward.signals, *(output.fileno() for output in ward.outputs if not output.is_closed)]
        if ward.channel is not None and not ward.channel.is_closed:
            watched.append(ward.channel.fileno())
        for descriptor in watched:
            with suppress(KeyError, ValueError):  # some are not watched any more, or never were
                self._selector.unregister(descriptor)
        if ward not in self._leaving:
            ward.close()
        del self._wards[ward.rank]
        self._trunk.send(Gone(ward.rank))

    def _hear_head(self, message: Relayed) -> None:
        if isinstance(message, Tell):
            if (ward := self._wards.get(message.rank)) is not None:
                ward.say(message.message)
        elif isinstance(message, Beat):
            self._patience_s = message.patience_s
        elif isinstance(message, Values):
            add_piece(self._initial, message.start, message.piece)
        elif isinstance(message, Kill):
            self._kill()
        elif isinstance(message, Because):
            self._because = message.text

    def _kill(self) -> None:
        """End all; also those that never came, if the engine's environment of theirs says who they are."""
        placed = self._orders.placed
        for ward in list(self._wards.values()):
            ward.kill(is_known=placed is not None and rank_in(placed, ward.pid) == ward.rank)
            if ward.channel is None:
                self._let_go(ward)

    def _lose_head(self, why: str) -> None:
        """Nobody leads the run any more: its workers end when their channels do, or are killed a little later."""
        if not self._wards:
            return
        self._because = self._because or f"weft: the head of the run is gone: {why}. All workers of this host end."
        self._orphaned_s = time.monotonic() + ORPHANS_S
        for ward in self._wards.values():
            if ward.channel is not None and not ward.channel.is_closed:
                self._selector.unregister(ward.channel.fileno())
                ward.channel.close()


def _has_come(pipe: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        return bool(selector.select(0))


def main() -> None:
    """Be the steward that standard input asks for."""
    for number in (signal.SIGINT, signal.SIGTERM):  # it ends with its workers, who are told to
        signal.signal(number, signal.SIG_IGN)
    try:
        orders = msgspec.json.decode(sys.stdin.buffer.read(), type=Orders)
        with closing(Steward(orders)) as steward:
            steward.run()
    except (WeftError, OSError, msgspec.DecodeError) as error:
        print(f"weft: the steward of this host ends: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
