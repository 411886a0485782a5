"""The steward of a host: has the memory that its workers share, watches them, and passes on what they say.

Started by the host's first worker as `python -m weft.engines.steward`, with its orders on standard input. It ends when
all workers of its host have ended, however they did; when it or the head of the run is gone, its workers end.
"""

import os
import selectors
import signal
import socket
import struct
import sys
import time
from contextlib import closing
from functools import partial

import msgspec
from msgspec import Struct

from weft.core.errors import TransportError, WeftError
from weft.engines.memories import make_memories
from weft.engines.nursery import Order, receive_fds, send_fds
from weft.engines.output import Output
from weft.engines.trunk import HEAD, Asked, Because, Came, Gone, Kill, Pulse, Relayed, Said, Tell, Trunk, Values, Wrote
from weft.engines.vigil import process_state
from weft.observe.status import Status
from weft.runtime.channel import Channel, Joined
from weft.runtime.initial import add_piece, pieces
from weft.transports.certificates import Authority, contexts
from weft.transports.dialing import dial

CONNECT_S_MAX = 30.0
PULSE_S = 0.2
HELLO_S_MAX = 2.0
LAST_WORDS_S_MAX = 2.0
"""How long what was said last may take to leave."""
ORPHANS_S = 1.0
"""How long workers may take to end once the head is gone."""
BACKLOG_BYTES_MAX = 4 << 20
"""While more than this waits for the head, statuses are left out: newer ones will come."""
CREDENTIALS = struct.Struct("3i")


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


class Hello(Struct, frozen=True):
    """A worker to its steward, with descriptors: where signals to it can be read, and what it writes if that is shown
    elsewhere."""

    rank: int


def place_of(meeting: str, host: int) -> str:
    """The address of a host's steward: a name without a file, which is gone with the steward."""
    return f"\0weft/{meeting}/{host}"


class Ward:
    """A worker of this host."""

    def __init__(self, rank: int, pid: int) -> None:
        self.rank = rank
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.channel: Channel | None = None
        self.outputs: list[Output] = []
        self.signals = -1
        self.times_asked = 0


class Steward:
    """Everything that one host's workers need of their engine."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._because = ""
        self._selector = selectors.DefaultSelector()
        self._memories = make_memories(len(orders.pids))
        self._initial = self._memories[2]
        self._wards: dict[int, Ward] = {}
        for rank, pid in sorted(orders.pids.items()):
            self._take_in(rank, pid)
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.bind(place_of(orders.meeting, orders.host))
        self._door.listen(len(orders.pids))
        self._selector.register(self._door, selectors.EVENT_READ, self._answer_door)
        tls = None
        if orders.is_encrypted:
            tls = contexts(Authority.of(orders.secret).issue(orders.host)).call
        about = orders.head, orders.host, HEAD, orders.secret, tls, CONNECT_S_MAX
        sock = dial(*about, who="the head of the run")
        self._trunk = Trunk(sock, self._selector, self._hear_head, self._lose_head)

    def _take_in(self, rank: int, pid: int) -> None:
        try:
            ward = self._wards[rank] = Ward(rank, pid)
        except ProcessLookupError:  # it has ended before anybody could look after it
            return
        self._selector.register(ward.pidfd, selectors.EVENT_READ, partial(self._bury, ward))

    def run(self) -> None:
        """Serve until all workers of this host have ended; then tell why, if the run has failed."""
        for rank in self._orders.pids.keys() - self._wards.keys():
            self._trunk.send(Gone(rank))
        pulse_s = 0.0
        while self._wards:
            for key, _ in self._selector.select(PULSE_S / 2):
                key.data()
            if time.monotonic() >= pulse_s:
                pulse_s = time.monotonic() + PULSE_S
                self._trunk.send(Pulse({rank: process_state(ward.pid) for rank, ward in self._wards.items()}))
        deadline_s = time.monotonic() + LAST_WORDS_S_MAX
        while not self._trunk.is_closed and time.monotonic() < deadline_s:  # the head hangs up when it has heard all
            for key, _ in self._selector.select(0.05):
                key.data()
        if self._because:
            print(self._because, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Let go of everything."""
        self._trunk.close()
        self._door.close()
        for fd in self._memories:
            os.close(fd)
        self._selector.close()

    def _answer_door(self) -> None:
        """Let a worker of this host in: it is who it says if the system says so."""
        end, _ = self._door.accept()
        with end:
            pid, uid, _ = CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
            ward = next((ward for ward in self._wards.values() if ward.pid == pid), None)
            if uid != os.geteuid() or ward is None or ward.channel is not None:
                return
            end.settimeout(HELLO_S_MAX)
            try:
                raw, fds, _, _ = socket.recv_fds(end, 1 << 10, 3)
                if msgspec.json.decode(raw, type=Hello).rank != ward.rank:
                    raise TransportError("it is another worker than was said")
            except (OSError, msgspec.DecodeError, TransportError):
                return
            self._let_in(ward, end, fds)

    def _let_in(self, ward: Ward, end: socket.socket, fds: list[int]) -> None:
        ward.signals, *written = fds
        self._selector.register(ward.signals, selectors.EVENT_READ, partial(self._hear_signals, ward))
        for descriptor, is_error in zip(written, (False, True), strict=False):
            output = Output(descriptor, partial(self._pass_line, ward.rank, is_error))
            ward.outputs.append(output)
            self._selector.register(descriptor, selectors.EVENT_READ, partial(self._copy, output))
        mine, theirs = socket.socketpair()
        with theirs:
            handed = [theirs.fileno(), *self._memories]
            send_fds(end, msgspec.json.encode(Order(1, len(handed))), handed)
        ward.channel = Channel(mine)
        self._selector.register(mine, selectors.EVENT_READ, partial(self._hear, ward))
        self._trunk.send(Came(ward.rank, ward.pid))

    def _hear(self, ward: Ward) -> None:
        assert ward.channel is not None
        for message in ward.channel.receive(wait=False):
            if isinstance(message, Status) and self._trunk.waiting_bytes > BACKLOG_BYTES_MAX:
                continue
            if isinstance(message, Joined) and ward.rank == 0 and self._orders.is_encrypted:
                self._send_values()
            self._trunk.send(Said(ward.rank, message))
        if ward.channel.is_closed:
            self._selector.unregister(ward.channel.fileno())
            ward.channel.close()

    def _send_values(self) -> None:
        """What worker 0 has written for all to begin with; its word that it has joined comes after."""
        start = 0
        for piece in pieces(self._initial):
            self._trunk.send(Values(start, bytes(piece)))
            start += len(piece)

    def _hear_signals(self, ward: Ward) -> None:
        raw = os.read(ward.signals, 64)
        if not raw:
            self._selector.unregister(ward.signals)
            return
        ward.times_asked += len(raw)
        self._trunk.send(Asked(ward.rank, ward.times_asked))

    def _pass_line(self, rank: int, is_error: bool, text: str) -> None:
        self._trunk.send(Wrote(rank, text, is_error))

    def _copy(self, output: Output) -> None:
        if not output.read():
            self._selector.unregister(output.fileno())
            output.close()

    def _bury(self, ward: Ward) -> None:
        """A worker has ended: pass on its last words first."""
        if ward.channel is not None and not ward.channel.is_closed:
            self._hear(ward)
        for output in ward.outputs:
            while not output.is_closed and _has_come(output.fileno()):
                self._copy(output)
        self._selector.unregister(ward.pidfd)
        os.close(ward.pidfd)
        del self._wards[ward.rank]
        self._trunk.send(Gone(ward.rank))

    def _hear_head(self, message: Relayed) -> None:
        if isinstance(message, Tell):
            ward = self._wards.get(message.rank)
            if ward is not None and ward.channel is not None:
                try:
                    ward.channel.send(message.message)
                except TransportError:  # it is about to be buried
                    return
        elif isinstance(message, Values):
            add_piece(self._initial, message.start, message.piece)
        elif isinstance(message, Kill):
            self._kill()
        elif isinstance(message, Because):
            self._because = message.text

    def _kill(self) -> None:
        for ward in self._wards.values():
            signal.pidfd_send_signal(ward.pidfd, signal.SIGKILL)

    def _lose_head(self, why: str) -> None:
        """Nobody leads the run any more: its workers end when their channels do."""
        if not self._wards:
            return
        self._because = self._because or f"weft: the head of the run is gone: {why}. All workers of this host end."
        for ward in self._wards.values():
            if ward.channel is not None and not ward.channel.is_closed:
                self._selector.unregister(ward.channel.fileno())
                ward.channel.close()
        deadline_s = time.monotonic() + ORPHANS_S
        while self._wards and time.monotonic() < deadline_s:
            for key, _ in self._selector.select(0.05):
                key.data()
        self._kill()


def _has_come(pipe: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        return bool(selector.select(0))


def meet(meeting: str, host: int, rank: int, written: list[int], timeout_s: float) -> tuple[int, list[int], int]:
    """A worker's side: its channel, the memory of its host, and where to write what signals tell it.

    `written` are pipes with what it writes, if that is to be shown by the head. The steward must be a process of the
    same user.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            end.connect(place_of(meeting, host))
            break
        except OSError as error:
            end.close()
            if time.monotonic() > deadline_s:
                raise TransportError(
                    f"worker {rank} waited {timeout_s:g} s for the steward of its host.\n  What it printed may say why."
                ) from error
            time.sleep(0.01)
    with end:
        _, uid, _ = CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
        if uid != os.geteuid():
            raise TransportError(f"the steward of this host is a process of user {uid}, a stranger.\n  Is it yours?")
        readable, writable = os.pipe()
        socket.send_fds(end, [msgspec.json.encode(Hello(rank))], [readable, *written])
        os.close(readable)
        try:
            got = receive_fds(end)
        except OSError:  # it hung up
            got = None
    if got is None:
        raise TransportError(f"the steward of this host did not let worker {rank} in.\n  What it printed may say why.")
    channel, *memories = got[1]
    return channel, memories, writable


def main() -> None:
    """Be the steward that standard input asks for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # workers are told to end, and so is this
    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=Orders)
    try:
        with closing(Steward(orders)) as steward:
            steward.run()
    except WeftError as error:
        print(f"weft: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
