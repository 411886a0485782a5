"""The process of one worker on a Ray cluster, as `python -m weft.engines.ray.worker_main`, told by standard input.

Its actor has started it, and it ends with its actor. What it writes goes to the host agent, and so to the
launcher; what it writes before that, its actor keeps.
"""

import os
import sys

import msgspec

from weft.core.errors import WeftError
from weft.engines.hosts.join import take_seat
from weft.engines.ray.actor import ActorOrders
from weft.engines.real.worker_script import run_script
from weft.lifeline import die_with_parent


def main() -> None:
    """Be the worker that standard input says."""
    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=ActorOrders)
    die_with_parent(orders.actor)
    pipes = [os.pipe(), os.pipe()]
    try:
        seat = take_seat(orders.token, orders.host, orders.rank, [readable for readable, _ in pipes])
    except WeftError as error:
        print(f"weft: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
    for stream, (readable, writable) in zip((1, 2), pipes, strict=True):
        os.close(readable)
        os.dup2(writable, stream)
        os.close(writable)
    run_script(seat.job, seat)


if __name__ == "__main__":
    main()
