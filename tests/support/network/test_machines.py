"""Network namespaces as hosts, and what is captured between them."""

import os
import socket
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.network.captures import Way, capture, is_tls_1_3, tls_records
from support.network.machines import Machines, machines
from support.network.namespaces import held, inside, pair, pinned
from weft.config.network import EmulatedNetwork
from weft.transports.certificates import Authority, contexts
from weft.transports.tls import TlsSocket

SLOW = EmulatedNetwork(12.5e6, 0.005)
MEET = """
import os, torch.distributed as dist, torch
dist.init_process_group("gloo")
mine = torch.tensor([float(dist.get_rank())])
dist.all_reduce(mine)
line = f"sum {mine.item()} local {os.environ['LOCAL_RANK']} on {os.uname().nodename}"
os.write(1, line.encode() + bytes([10]))  # in one piece: torchrun runs python -u, whose print writes word by word
dist.destroy_process_group()
"""


def namespaces(hosts: Machines) -> list[Path]:
    return [Path(f"/proc/self/fd/{namespace}") for namespace in hosts.namespaces]


@pytest.mark.parametrize("network", [None, SLOW], ids=["fast", "slow"])
def test_every_host_has_a_name_and_an_address_at_which_the_others_reach_it(network: EmulatedNetwork | None) -> None:
    with machines(3, network) as hosts:
        assert hosts.addresses == ["10.77.0.1", "10.77.0.2", "10.77.0.3"]
        code = "import os, sys; print(os.uname().nodename, os.readlink('/proc/self/ns/net')); sys.exit({})"
        run = hosts.start([[sys.executable, "-c", code.format(host)] for host in range(3)])
        assert run.end() == [0, 1, 2]
        assert [line.split()[0] for line in run.text().splitlines()] == ["host0", "host1", "host2"]
        assert {line.split()[1] for line in run.text().splitlines()} == set(map(os.readlink, namespaces(hosts)))
        caller, answerer = pair(hosts.namespaces)
        caller.send(b"hello")
        assert answerer.recv(5) == b"hello"
        caller.close()
        answerer.close()


def test_torchrun_on_two_hosts_forms_one_world(tmp_path: Path) -> None:
    (tmp_path / "meet.py").write_text(MEET)
    with machines(2) as hosts:
        run = hosts.torchrun("meet.py", workers_per_host=2, cwd=tmp_path)
        assert run.end() == [0, 0], run.text()
        for host in range(2):
            told = [line.split() for line in run.out[host] if line.startswith("sum")]
            assert {line[1] for line in told} == {"6.0"}
            assert {(line[3], line[5]) for line in told} == {("0", f"host{host}"), ("1", f"host{host}")}


@pytest.mark.parametrize("network", [None, SLOW], ids=["fast", "slow"])
def test_nothing_is_left_of_hosts_on_which_something_was_still_running(network: EmulatedNetwork | None) -> None:
    with ExitStack() as until_seen:
        with machines(2, network) as hosts:
            made = until_seen.enter_context(pinned(namespaces(hosts)))
            sleeper = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True); print('begun')"
            run = hosts.start([[sys.executable, "-c", f"{sleeper}\nimport time\ntime.sleep(1000)"]] * 2)
            run.until("begun", 2)
            assert len(run.living()) == 4
            with pytest.raises(AssertionError, match=r"hosts \[0, 1\] had not ended after 0\.01 s"):
                run.end(0.01)
        assert run.living() == set()
        assert held(made) == set()


def test_a_capture_has_every_byte_of_both_ways_once() -> None:
    sent = os.urandom(3 << 20)
    with machines(2) as hosts, capture(hosts.namespaces[1]) as seen:
        caller, answerer = pair(hosts.namespaces)
        thread = threading.Thread(target=caller.sendall, args=(sent,))
        thread.start()
        came = b""
        while len(came) < len(sent):
            came += answerer.recv(1 << 20)
        answerer.send(b"thanks")
        caller.recv(6)
        thread.join()
        (source, source_port), (target, port) = caller.getsockname(), answerer.getsockname()
        caller.close()
        answerer.close()
    assert seen.streams() == {
        Way(source, source_port, target, port): sent,
        Way(target, port, source, source_port): b"thanks",
    }
    assert tls_records(sent) is None


def test_encrypted_connections_are_told_from_others() -> None:
    authority = Authority()
    with machines(2) as hosts, capture(hosts.namespaces[0]) as seen:
        tls = [contexts(authority.issue(rank)) for rank in range(2)]
        with inside(hosts.namespaces[1], lambda: socket.create_server((hosts.addresses[1], 0))) as listener:
            there = listener.getsockname()
            caller = inside(hosts.namespaces[0], lambda: socket.create_connection(there, timeout=10))
            answerer, _ = listener.accept()
        thread = threading.Thread(target=lambda: answering(TlsSocket(tls[1].answer, answerer)))
        thread.start()
        encrypted = TlsSocket(tls[0].call, caller, "rank-1.weft")
        encrypted.do_handshake()
        encrypted.sendall(b"secret")
        assert encrypted.recv(6) == b"terces"
        encrypted.close()
        thread.join()
    one, other = seen.streams().values()
    assert is_tls_1_3(one, other)
    assert b"secret" not in one + other
    assert not is_tls_1_3(one, b"secret")
    assert not is_tls_1_3(one, other[:5] + b"WEFT" * 100)


def answering(sock: TlsSocket) -> None:
    sock.settimeout(10)
    sock.do_handshake()
    sock.sendall(sock.recv(6)[::-1])
    sock.close()
