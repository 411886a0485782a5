"""The process of one worker on a Ray cluster: `python -m weft.engines.ray.worker_main`, with its orders on stdin.

It is started by its actor, and ends with it (PR_SET_PDEATHSIG). Its output goes through pipes to the host
agent, and so to the launcher; the actor keeps what the process wrote before that.
"""

import os
import sys

import msgspec

from weft.core.errors import WeftError
from weft.engines.hosts.bootstrap import take_seat
from weft.engines.ray.actor import ActorOrders
from weft.engines.real.worker_script import run_script
from weft.parent_death import die_with_parent


def main() -> None:
    """Read the orders from standard input, take the seat and run the script."""
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
