"""Can real workers run on this machine? Every check, on a healthy machine and on a sick one."""

import ctypes
import os
import platform
import resource
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.engines.diagnose import machine
from weft.engines.diagnose.machine import CHECKS, GIB, MIB, Finding, examine

TORCH = '{"version": "2.9", "threads": 4, "gloo": %s}'


@pytest.mark.parametrize("check", [check for check in CHECKS if check is not machine.check_torch])
def test_a_check_of_this_machine_finds_something_and_says_what_to_do(check: machine.Check) -> None:
    (finding,) = examine([check])
    assert finding.found
    assert "could not be checked" not in finding.found
    assert bool(finding.fix) == (finding.verdict != "ok")


def test_names_of_checks_are_unique() -> None:
    names = [finding.name for finding in examine(check for check in CHECKS if check is not machine.check_torch)]
    assert len(set(names)) == len(names) == len(CHECKS) - 1


def test_a_check_that_fails_unforeseen_is_a_finding_and_the_others_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    failed, clock = examine([machine.check_cores, machine.check_clock])
    assert failed == Finding(
        "cores",
        "bad",
        "could not be checked: AttributeError: module 'os' has no attribute 'sched_getaffinity'",
        "Is this Linux?",
    )
    assert clock.name == "clock"


def verdict(finding: Finding) -> tuple[str, str]:
    return finding.verdict, finding.found


def test_another_system_cannot_run_real_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    found = machine.check_python()
    assert (found.verdict, found.fix) == ("bad", "Real workers need Linux; weft simulate runs anywhere.")


@pytest.mark.parametrize(
    ("usable", "quota", "load", "expected", "found"),
    [
        ({0, 1, 2, 3}, None, 0.5, "ok", "4 usable of 8, load 0.5"),
        ({0, 1, 2, 3}, "max 100000\n", 0.5, "ok", "4 usable of 8, load 0.5"),
        ({0, 1, 2, 3}, "150000 100000\n", 0.5, "warn", "1.5 usable of 8, load 0.5"),
        ({0}, None, 0.1, "warn", "1 usable of 8, load 0.1"),
        ({0, 1, 2, 3}, None, 3.5, "warn", "4 usable of 8, load 3.5"),
    ],
)
def test_few_or_busy_cores_are_told(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    usable: set[int],
    quota: str | None,
    load: float,
    expected: str,
    found: str,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: usable)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(machine, "CPU_QUOTA", tmp_path / "cpu.max")
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota)
    assert verdict(machine.check_cores()) == (expected, found)


@pytest.mark.parametrize(("free", "expected"), [(GIB // 4, "bad"), (GIB, "warn"), (8 * GIB, "ok")])
def test_memory_that_is_short_is_told(monkeypatch: pytest.MonkeyPatch, free: int, expected: str) -> None:
    monkeypatch.setattr(machine, "available_bytes", lambda: free)
    assert machine.check_memory().verdict == expected


@pytest.mark.parametrize(
    ("check", "feature"),
    [
        (machine.check_shared_memory, "memfd_create"),
        (machine.check_eventfd, "eventfd"),
        (machine.check_pidfd, "pidfd_open"),
    ],
)
def test_a_feature_that_is_missing_or_refused_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, check: machine.Check, feature: str
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, feature, refuse)
    assert check().verdict == "bad"
    assert "[Errno 1] Operation not permitted" in check().found
    monkeypatch.delattr(os, feature)
    assert verdict(check()) == ("bad", f"this Python has no os.{feature}")


def test_an_eventfd_that_miscounts_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "eventfd_read", lambda file: 1)
    assert verdict(machine.check_eventfd()) == ("bad", "3 was written, 1 was read")


def test_a_small_or_missing_shm_folder_is_only_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=64 * MIB))
    monkeypatch.setattr(Path, "is_dir", lambda path: True)
    assert verdict(machine.check_shm_folder()) == ("warn", "64 MiB free")
    monkeypatch.setattr(Path, "is_dir", lambda path: False)
    assert verdict(machine.check_shm_folder()) == ("warn", "missing")


@pytest.mark.parametrize(
    ("library", "found"),
    [
        (SimpleNamespace(), "the C library has no prctl"),
        (SimpleNamespace(prctl=lambda *_: -1), "prctl was refused: Success"),
    ],
)
def test_workers_that_would_outlive_their_launcher_are_bad(
    monkeypatch: pytest.MonkeyPatch, library: Any, found: str
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: library)
    monkeypatch.setattr(ctypes, "get_errno", lambda: 0)
    assert verdict(machine.check_parent_death_signal()) == ("bad", found)


def test_a_pagemap_that_is_not_readable_is_only_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(machine, "open", refuse, raising=False)
    assert machine.check_pagemap().verdict == "warn"
    assert machine.check_pagemap().found.endswith("[Errno 13] Permission denied")


def test_a_loopback_that_refuses_is_bad_and_a_slow_one_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_round_trip_s", lambda near, far: 0.002)
    assert verdict(machine.check_loopback()) == ("warn", "a port can be bound and reached; 2000 us there and back")

    def refuse(*_: object, **__: Any) -> None:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(socket, "create_server", refuse)
    assert verdict(machine.check_loopback()) == ("bad", "127.0.0.1 cannot be used: [Errno 98] Address already in use")


@pytest.mark.parametrize(
    ("soft", "hard", "expected", "found"),
    [
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, "ok", "no limit"),
        (4096, 4096, "ok", "at most 4,096"),
        (256, 4096, "warn", "at most 256 (can be raised to 4,096)"),
        (16, 16, "bad", "at most 16"),
    ],
)
def test_limits_that_are_low_are_told(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, expected: str, found: str
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, hard))
    assert verdict(machine.check_open_files()) == (expected, found)
    assert verdict(machine.check_processes()) == (expected, found)


@pytest.mark.parametrize(
    ("code", "out", "err", "expected", "found"),
    [
        (0, TORCH % "true", "", "ok", "2.9, 4 threads, Gloo available"),
        (0, TORCH % "false", "", "warn", "2.9, 4 threads, Gloo missing"),
        (1, "", "Traceback:\nImportError: libgomp.so\n", "bad", "cannot be imported: ImportError: libgomp.so"),
        (-11, "", "", "bad", "cannot be imported: exit code -11"),
    ],
)
def test_torch_is_asked_in_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str, expected: str, found: str
) -> None:
    ended = SimpleNamespace(returncode=code, stdout=out, stderr=err)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    assert verdict(machine.check_torch()) == (expected, found)


def test_a_torch_that_is_missing_or_takes_for_ever_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert verdict(machine.check_torch()) == ("warn", "importing it took more than 8 s")
    monkeypatch.setattr(machine, "_version", lambda package: None)
    assert verdict(machine.check_torch()) == ("warn", "not installed")


@pytest.mark.parametrize(
    ("asked", "expected"), [(None, "ok"), ("1", "ok"), ("8", "warn"), ("0", "warn"), ("x", "warn")]
)
def test_threads_that_would_fight_for_cores_are_told(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, expected: str
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert machine.check_threads().verdict == expected


def test_a_clock_that_is_slow_to_read_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = iter([0.0, 0.005])
    monkeypatch.setattr(time, "perf_counter", lambda: next(reads))
    found = machine.check_clock()
    assert found.verdict == "warn"
    assert found.found.startswith("5000 ns to read")


@pytest.mark.parametrize(
    ("package", "program", "expected"), [(None, None, "ok"), ("4.1", None, "warn"), ("4.1", "/bin/mpiexec", "ok")]
)
def test_mpi_is_a_peer_of_benchmarks_and_nothing_without_it_is_bad(
    monkeypatch: pytest.MonkeyPatch, package: str | None, program: str | None, expected: str
) -> None:
    monkeypatch.setattr(machine, "_version", lambda name: package)
    monkeypatch.setattr(shutil, "which", lambda name, path: program)
    assert machine.check_mpi().verdict == expected
