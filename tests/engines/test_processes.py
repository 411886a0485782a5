"""Processes of Weft's own that outlive whoever starts them."""

import os

import pytest

from weft.engines.processes import start_apart


def test_orders_come_on_standard_input_and_descriptors_under_their_numbers() -> None:
    readable, writable = os.pipe()
    orders = f"import os, sys\nos.write({writable}, repr((os.getsid(0) == os.getpid(), sys.argv)).encode())\n"
    start_apart(["code", "-q"], orders.encode(), [writable])  # the interpreter's own module that obeys its input
    os.close(writable)
    told = os.read(readable, 1000).decode()
    os.close(readable)
    assert told.startswith("(True, [")
    assert "os.write" not in told


def test_the_secret_is_not_in_the_environment_of_what_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_SECRET", "ab" * 32)
    monkeypatch.setenv("WEFT_OTHER", "told")
    readable, writable = os.pipe()
    orders = f"import os\nos.write({writable}, repr(sorted(n for n in os.environ if 'WEFT_' in n)).encode())\n"
    start_apart(["code", "-q"], orders.encode(), [writable])
    os.close(writable)
    told = os.read(readable, 1000).decode()
    os.close(readable)
    assert "WEFT_OTHER" in told
    assert "WEFT_SECRET" not in told
