"""Strangers knock at a worker's port while it trains: they are refused and counted, and change nothing."""

import socket
from pathlib import Path
from random import Random
from threading import Thread

import numpy as np
import pytest
from support.processes.real import Heard, real

from weft.core.names import Bucket
from weft.engines.real.observer import Observer
from weft.transports.frames import VERSION, Header, Layout
from weft.transports.handshake import HELLO, MAGIC, PROOF_BYTES

NUM_WORKERS = 3
SCRIPT = """
import os, sys, time
import numpy as np
import weft
from weft.core.seat import current

folder = sys.argv[1]
w = np.linspace(-1.0, 1.0, 40)
worker = weft.join(arrays={"w": w}, optimizer=weft.Momentum(lr=0.1))
print("port", current()._connections.port, flush=True)
for epoch in worker.epochs(4):
    for rows in worker.share(60, batch_size=2):
        worker.step({"w": w - rows.mean()})
        while worker.steps == 30 and not os.path.exists(f"{folder}/go on"):
            time.sleep(0.001)
np.save(f"{folder}/{worker.rank}.npy", w)
"""


def nonce(rng: Random) -> bytes:
    return rng.randbytes(32)


def mutated(raw: bytes, rng: Random) -> bytes:
    """One bit is another."""
    place = rng.randrange(len(raw))
    return raw[:place] + bytes([raw[place] ^ 1 << rng.randrange(8)]) + raw[place + 1 :]


def knocks(rank: int, seed: int) -> list[bytes]:
    """What strangers say: bad openings, proofs without the secret, frames without a proof, half of everything."""
    rng = Random(seed)
    hellos = [HELLO.pack(MAGIC, VERSION, caller, rank, 0, nonce(rng)) for caller in range(NUM_WORKERS + 1)]
    frame = Header(0, 1, rank, 5, 0, (0, 0), 1.0, 8, 0, 320, 0).pack() + bytes(320)
    said = [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", rng.randbytes(500), b"\x00" * 64, frame, frame[:40]]
    said += [hello + proof for hello in hellos for proof in (b"", bytes(PROOF_BYTES), nonce(rng), frame)]
    said += [hello[: rng.randrange(1, len(hello))] for hello in hellos]
    said += [mutated(frame, rng) for _ in range(10)]
    return said + [mutated(hello, rng) + nonce(rng) for hello in hellos for _ in range(3)]


class Stranger(Heard):
    """Knocks at every port that it hears of, until each knock was refused; then lets the training go on."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__()
        self._folder = folder
        self._seed = seed
        self._ports: dict[int, int] = {}
        self._thread = Thread(target=self._disturb)
        self.num_knocks = 0

    def observer(self) -> Observer:
        observer = super().observer()
        observer.on_line = self._hear
        return observer

    def _hear(self, rank: int, text: str, is_error: bool) -> None:
        if text.startswith("port "):
            self._ports[rank] = int(text.split()[1])
            if len(self._ports) == NUM_WORKERS:
                self._thread.start()

    def _disturb(self) -> None:
        for rank, port in self._ports.items():
            for said in knocks(rank, self._seed):
                self._knock(port, said)
        (self._folder / "go on").touch()

    def _knock(self, port: int, said: bytes) -> None:
        self.num_knocks += 1
        with socket.create_connection(("127.0.0.1", port), timeout=5.0) as sock:
            try:
                sock.sendall(said)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(4096):
                    pass
            except OSError:  # it was refused before it had said everything
                return


def trained(folder: Path, heard: Heard, strategy: str) -> tuple[list[np.ndarray], int]:
    folder.mkdir(exist_ok=True)
    script = folder / "train.py"
    script.write_text(SCRIPT)
    outcome = real(script, NUM_WORKERS, strategy, folder, transport="tcp", heard=heard)
    return [np.load(folder / f"{rank}.npy") for rank in range(NUM_WORKERS)], outcome.to_json()["refused"]


@pytest.mark.parametrize(("strategy", "seed"), [("allreduce", 0), ("gossip", 1)])
def test_strangers_are_refused_and_counted_and_the_result_is_that_of_the_undisturbed_run(
    strategy: str, seed: int, tmp_path: Path
) -> None:
    quiet = tmp_path / "quiet"
    quiet.mkdir()
    (quiet / "go on").touch()
    expected, refused = trained(quiet, Heard(), strategy)
    assert refused == 0
    stranger = Stranger(tmp_path / "disturbed", seed)
    disturbed, refused = trained(tmp_path / "disturbed", stranger, strategy)
    assert stranger.num_knocks > 100
    assert refused == stranger.num_knocks
    # neighbours' values are added in the order in which they come
    tolerance = 0.0 if strategy == "allreduce" else 1e-12
    assert all(np.allclose(a, b, tolerance, tolerance) for a, b in zip(disturbed, expected, strict=True))


def test_the_frames_that_strangers_send_would_be_valid_ones_of_a_worker() -> None:
    frame = knocks(2, 0)[4]
    header = Layout(1, NUM_WORKERS, (Bucket(40, 8),)).read(memoryview(frame)[:64])
    assert (header.source, header.target, header.body_bytes, len(frame)) == (1, 2, 320, 384)
