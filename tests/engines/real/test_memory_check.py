"""Will it fit?"""

from pathlib import Path

import pytest

from weft.core.errors import ConfigError
from weft.engines.real.memory_check import available_bytes, check_fits, resident_bytes

GIB = 2**30


def test_a_run_that_fits_with_some_headroom_is_let_through() -> None:
    assert check_fits(9, GIB, 10 * GIB) is None


def test_a_run_that_does_not_is_refused_with_the_estimate_and_what_would_fit() -> None:
    with pytest.raises(ConfigError) as refused:
        check_fits(64, GIB // 2, 10 * GIB)
    assert str(refused.value) == (
        "64 workers need about 32.0 GiB (512.0 MiB each), but 10.0 GiB are available.\n"
        "  Use -n 18 or fewer, or --dry, which needs no tensors."
    )


def test_the_machine_says_how_much_it_has_and_how_much_is_used() -> None:
    ballast = bytearray(GIB // 16)
    assert len(ballast) < resident_bytes() < 64 * GIB
    assert available_bytes() > GIB // 16


def files(monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    """Let the machine have these files and no others; '__' stands for '/'."""
    told = {f"/{name.replace('__', '/')}": text for name, text in texts.items()}
    monkeypatch.setattr(Path, "read_text", lambda path, *_: told[str(path)])
    monkeypatch.setattr(Path, "exists", lambda path, *_: str(path) in told)


@pytest.mark.parametrize(
    "limit", ["memory.max memory.current", "memory/memory.limit_in_bytes memory/memory.usage_in_bytes"]
)
def test_a_container_that_is_limited_can_give_what_is_left_of_its_limit(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    maximum, used = (f"sys__fs__cgroup__{name.replace('/', '__')}" for name in limit.split())
    files(
        monkeypatch, proc__meminfo="MemTotal: 9 kB\nMemAvailable: 4096 kB\n", **{maximum: "1048576\n", used: "48576\n"}
    )
    assert available_bytes() == 1_000_000
    files(
        monkeypatch,
        proc__meminfo="MemAvailable: 4096 kB\n",
        **{maximum: "max\n" if "max" in limit else "999999999"},
        **{used: "9"},
    )
    assert available_bytes() == 4096 * 1024


def test_a_machine_that_does_not_say_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    files(monkeypatch, proc__meminfo="MemTotal: 9 kB\n")
    with pytest.raises(ConfigError) as refused:
        available_bytes()
    assert str(refused.value) == "/proc/meminfo does not say how much memory is available.\n  Use --dry."
