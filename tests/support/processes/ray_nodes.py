"""A Ray cluster of two nodes: `python -m support.processes.ray_nodes` is one, until its standard input ends.

Its files are in the folder RAY_TMPDIR. It listens on loopback only and wants a token, as clusters of Weft's own do.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.processes.launches import lives

CPUS_PER_NODE = 2
STORE_BYTES = 80 << 20
TESTS = Path(__file__).parents[2]


@dataclass(frozen=True)
class Nodes:
    """A cluster that is there."""

    address: str
    environment: dict[str, str]
    """What whoever uses it needs."""
    mark: bytes

    def workers(self) -> list[int]:
        """The processes of Weft's workers that live on it."""
        return self._running("weft.engines.ray.worker_main")

    def agents(self) -> list[int]:
        """Those of their host agents."""
        return self._running("weft.engines.hosts.agent")

    def _running(self, module: str) -> list[int]:
        numbers = map(int, filter(str.isdigit, os.listdir("/proc")))
        return [pid for pid in numbers if self._is_ours(pid) and module in _words(pid)]

    def _is_ours(self, pid: int) -> bool:
        try:
            return self.mark in Path(f"/proc/{pid}/environ").read_bytes() and lives(pid)
        except OSError:
            return False


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def parent_of(pid: int) -> int:
    """The process that started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextmanager
def ray_nodes(folder: Path) -> Iterator[Nodes]:
    """Two nodes; nothing is left of them afterwards."""
    mark = secrets.token_hex(8)
    environment = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }
    others = {
        "PYTHONPATH": str(TESTS),
        "RAY_TMPDIR": str(folder),
        "RAY_enable_worker_prestart": "0",
        "NODES_OF_TEST": mark,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment, **others},
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().decode().strip()
        assert address, "the cluster could not be started"
        yield Nodes(address, environment, f"NODES_OF_TEST={mark}".encode())
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def main() -> None:
    """Be the cluster."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    for number in range(2):
        only_first = {} if number else {"include_dashboard": False}
        cluster.add_node(
            num_cpus=CPUS_PER_NODE,
            object_store_memory=STORE_BYTES,
            node_ip_address="127.0.0.1",
            **only_first,
        )
    print(cluster.address, flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
