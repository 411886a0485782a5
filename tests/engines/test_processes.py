"""Processes of Weft's own that outlive whoever starts them."""

import os

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
