"""Training between hosts under fire: whatever strangers try on its ports, it learns what it learns undisturbed."""

import socket
import time
from collections import deque
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from secrets import token_bytes
from threading import Thread

import numpy as np
import pytest
from support.processes.real import Heard, real

from weft.core.errors import TransportError
from weft.engines.real.job import spread
from weft.engines.real.observer import Observer
from weft.transports.certificates import Authority, contexts
from weft.transports.dialing import dial
from weft.transports.frames import VERSION, Header
from weft.transports.handshake import CHALLENGE, HELLO, MAGIC, NONCE_BYTES, Conversation, certified_name
from weft.transports.tls import RECORD_BYTES_MAX, TlsSocket

NUM_WORKERS = 3
FRAMES_PER_CONNECTION = 100
NUM_FRAMES = 100_000
SCRIPT = """
import os, resource, sys
import numpy as np
import weft
from weft.core.seat import current

folder = sys.argv[1]
w, stop = np.linspace(-1.0, 1.0, 400), np.zeros(1)
worker = weft.join(arrays={"w": w, "stop": stop}, optimizer=weft.SGD(lr=0.1))
seat = current()
print("port", seat._connections.port, seat.job.secret.hex(), flush=True)
rng = np.random.default_rng(worker.rank)
while not stop[0]:
    if worker.steps < 20:  # then gradients of nothing, until all have heard that the fire is over
        worker.step({"w": w - rng.normal(), "stop": np.zeros(1)}, samples=1)
    else:
        is_over = float(os.path.exists(f"{folder}/over"))
        worker.step({"w": np.zeros(400), "stop": np.full(1, -is_over)}, samples=1)
for _ in range(20):
    worker.step({"w": w - rng.normal(), "stop": np.zeros(1)}, samples=1)
np.save(f"{folder}/{worker.rank}.npy", w)
print("memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
"""


def mutated_frames(rank: int, rng: Random) -> bytes:
    """Frames that would be valid but for a bit of each."""
    raw = bytearray()
    frame = Header(0, 1, rank, 5, 0, (0, 0), 1.0, 8, 0, 320, 0).pack() + bytes(320)
    for _ in range(FRAMES_PER_CONNECTION):
        raw += frame
        raw[-1 - rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
    return bytes(raw)


@cache
def greeting_of_tls() -> bytes:
    """What every caller says first."""
    caller, said = contexts(Authority().issue(2)).call.begin(certified_name(0)), bytearray(RECORD_BYTES_MAX)
    assert not caller.shake_hands()
    return bytes(said[: caller.take_encrypted(said)])


class Fire(Heard):
    """Tries everything on every port that it hears of, then lets the training end."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._rng = Random(0)
        self._ports: dict[int, int] = {}
        self._secret = b""
        self._thread = Thread(target=self._burn)
        self.memory_kib: list[int] = []
        self.num_tried = 0
        self.errors: list[str] = []

    def observer(self) -> Observer:
        observer = super().observer()
        observer.on_line = self._hear
        return observer

    def _hear(self, rank: int, text: str, is_error: bool) -> None:
        word, _, rest = text.partition(" ")
        if word == "memory":
            self.memory_kib.append(int(rest))
        elif word == "port":
            port, secret = rest.split()
            self._ports[rank], self._secret = int(port), bytes.fromhex(secret)
            if len(self._ports) == NUM_WORKERS and self._is_needed():
                self._thread.start()

    def _is_needed(self) -> bool:
        return not (self._folder / "over").exists()

    def _burn(self) -> None:
        slow = [self._connect(rank) for rank in self._ports]
        since_s = time.monotonic()
        greeting = deque(greeting_of_tls())
        try:
            for rank in self._ports:
                self._try_identities(rank)
            while self.num_tried * FRAMES_PER_CONNECTION < NUM_FRAMES or slow:
                self._say(self._rng.choice(list(self._ports)), mutated_frames)
                if time.monotonic() - since_s > len(greeting_of_tls()) - len(greeting):  # one byte a second
                    slow = self._trickle(slow, bytes([greeting.popleft()]))
        except BaseException as error:
            self.errors.append(repr(error))
        (self._folder / "over").touch()

    def _connect(self, rank: int) -> socket.socket:
        self.num_tried += 1
        return socket.create_connection(("127.0.0.1", self._ports[rank]), timeout=5.0)

    def _trickle(self, slow: list[socket.socket], byte: bytes) -> list[socket.socket]:
        """Say one more byte of a greeting; those that are still listened to."""
        return [sock for sock in slow if self._is_heard(sock, byte)]

    def _is_heard(self, sock: socket.socket, byte: bytes) -> bool:
        try:
            sock.sendall(byte)
        except OSError:
            sock.close()
            return False
        return True

    def _say(self, rank: int, said: Callable[[int, Random], bytes]) -> None:
        with self._connect(rank) as sock:
            try:
                sock.sendall(said(rank, self._rng))
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(4096):
                    pass
            except OSError:  # it was refused before it had said everything
                return

    def _try_identities(self, rank: int) -> None:
        """As a worker of another job, with a stolen certificate, with an old conversation, and as a rank twice."""
        self.num_tried += 1
        other = contexts(Authority.of(b"o" * 32).issue(2)).call
        with pytest.raises(TransportError, match="did not prove to belong to this job"):
            dial(("127.0.0.1", self._ports[rank]), 2, rank, b"o" * 32, other, 5.0)
        old = Conversation(2, rank, 0, bytes(NONCE_BYTES), bytes(NONCE_BYTES)).proof(self._secret, b"caller")
        for proof in (bytes(32), token_bytes(32), old):
            assert self._converse(rank, 2, 2, lambda talk, proof=proof: proof) == b""  # type: ignore[misc]
        right: Callable[[Conversation], bytes] = lambda talk: talk.proof(self._secret, b"caller")  # noqa: E731
        for certified, claimed in ((2, 2), (1, 2), (2, 1), (7, 7)):
            assert self._converse(rank, certified, claimed, right) == b""

    def _converse(self, rank: int, certified: int, claimed: int, prove: Callable[[Conversation], bytes]) -> bytes:
        """What is answered to a proof of somebody whose certificate is this job's."""
        context = contexts(Authority.of(self._secret).issue(certified)).call
        with self._connect(rank) as plain:
            sock = TlsSocket(context, plain, certified_name(rank))
            sock.do_handshake()
            nonce = token_bytes(NONCE_BYTES)
            sock.sendall(HELLO.pack(MAGIC, VERSION, claimed, rank, 0, nonce))
            raw = sock.recv(CHALLENGE.size)
            theirs = CHALLENGE.unpack(raw)[2] if len(raw) == CHALLENGE.size else bytes(NONCE_BYTES)
            try:
                sock.sendall(prove(Conversation(claimed, rank, 0, nonce, theirs)))
                return sock.recv(32)
            except OSError:
                return b""


def trained(folder: Path, heard: Heard) -> tuple[list[np.ndarray], int]:
    (folder / "train.py").write_text(SCRIPT)
    outcome = real(folder / "train.py", NUM_WORKERS, None, folder, hosts=spread(NUM_WORKERS, 3), heard=heard)
    return [np.load(folder / f"{rank}.npy") for rank in range(NUM_WORKERS)], outcome.to_json()["refused"]


def test_a_hundred_thousand_frames_of_strangers_and_false_identities_change_nothing(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("quiet", "burning")]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "over").touch()
    calm = Fire(folders[0])
    expected, refused = trained(folders[0], calm)
    assert refused == 0
    fire = Fire(folders[1])
    burnt, refused = trained(folders[1], fire)
    assert fire.errors == []
    assert all(np.array_equal(a, b) for a, b in zip(burnt, expected, strict=True))
    assert refused == fire.num_tried
    assert fire.num_tried * FRAMES_PER_CONNECTION >= NUM_FRAMES
    assert max(fire.memory_kib) < max(calm.memory_kib) + 32 * 1024
