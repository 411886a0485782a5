"""Network namespaces without names."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from weft.engines.netem import namespaces
from weft.engines.netem.namespaces import (
    DEVICE,
    MTU_BYTES,
    address,
    enter,
    make_namespace,
    move_in,
    own_namespace,
    rank_at,
)


@pytest.mark.parametrize(("rank", "ip"), [(0, "10.77.0.1"), (254, "10.77.0.255"), (255, "10.77.1.0")])
def test_every_rank_has_an_address_and_every_address_a_rank(rank: int, ip: str) -> None:
    assert address(rank) == ip
    assert rank_at(socket.inet_aton(ip)) == rank


@pytest.mark.parametrize("ip", ["10.77.0.0", "224.0.0.22", "10.78.0.1"])
def test_other_addresses_are_nobodys(ip: str) -> None:
    assert rank_at(socket.inet_aton(ip)) == -1


def inode(descriptor: int) -> int:
    return os.fstat(descriptor).st_ino


def test_a_namespace_has_its_device_and_its_settings_and_only_the_thread_that_made_it_is_there() -> None:
    def make() -> tuple[int, int, int, list[str], str]:
        namespace, tun = make_namespace(4)
        seen = own_namespace()
        with open("/proc/sys/net/ipv4/tcp_fin_timeout") as file:
            return namespace, tun, seen, [name for _, name in socket.if_nameindex()], file.read().strip()

    home = own_namespace()
    with ThreadPoolExecutor(1) as thread:
        namespace, tun, seen, devices, timeout_s = thread.submit(make).result()
    here = own_namespace()
    assert inode(namespace) == inode(seen) != inode(home) == inode(here)
    assert (devices[0], devices[-1]) == ("lo", DEVICE)
    assert timeout_s == "1"
    assert DEVICE not in [name for _, name in socket.if_nameindex()]
    for descriptor in (home, here, namespace, tun, seen):
        os.close(descriptor)


def test_who_moves_in_lets_go_of_all_namespaces_and_finds_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> tuple[int, int]:
        return make_namespace(0)

    def look(mine: int) -> tuple[int, int, bool]:
        expected = inode(mine)
        move_in([other, mine], 1)
        now = own_namespace()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((address(0), 0))
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0)
        found = inode(now)
        os.close(now)
        return expected, found, os.environ["GLOO_SOCKET_IFNAME"] == DEVICE

    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")
    with ThreadPoolExecutor(1) as thread:
        mine, tun = thread.submit(make).result()
    other = own_namespace()
    with ThreadPoolExecutor(1) as thread:
        expected, found, is_told = thread.submit(look, mine).result()
    os.close(tun)
    assert (expected, is_told) == (found, True)
    for closed in (mine, other):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(closed)


def test_packets_are_as_large_as_the_device_takes() -> None:
    def make() -> int:
        made = make_namespace(0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(bytes(3 * MTU_BYTES), (address(1), 9))
        os.close(made[0])
        return made[1]

    with ThreadPoolExecutor(1) as thread:
        tun = thread.submit(make).result()
    sizes = [len(os.read(tun, 1 << 16)) for _ in range(4)]
    os.close(tun)
    assert MTU_BYTES - 8 < max(sizes) <= MTU_BYTES


def test_a_kernel_that_refuses_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "CLONE_NEWNET", -1)
    here = own_namespace()
    with pytest.raises(OSError, match="setns failed: Invalid argument"):
        enter(here)
    with pytest.raises(OSError, match="unshare failed: Invalid argument"):
        make_namespace(0)
    os.close(here)
