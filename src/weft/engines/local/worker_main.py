"""The process of one worker: takes its seat, runs the user's script, tells the launcher how it went."""

import os
import signal
import socket
from collections.abc import Sequence

import msgspec

from weft.core.seat import sit
from weft.engines.netem.namespaces import move_in
from weft.engines.real.host_memory import keep_own
from weft.engines.real.seat_factory import seat_of
from weft.engines.real.worker_script import run_script
from weft.lifeline import die_with_parent
from weft.runtime.channel import Channel
from weft.runtime.measure.script_watch import watch_script
from weft.runtime.messages import WorkerJob


def main(channel_fd: int, shared: Sequence[int]) -> None:
    """Run the worker whose channel this is, with what it shares with others; the exit code is 0 when all went well."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides how Ctrl-C ends a run
    os.register_at_fork(after_in_child=die_with_parent)  # a loader's processes end with the worker, however it ends
    channel = Channel(socket.socket(fileno=channel_fd))
    job = next(iter(channel.receive(wait=True)))
    assert isinstance(job, WorkerJob)
    job = msgspec.structs.replace(job, descriptors=keep_own(shared, job))
    if job.descriptors.namespaces:  # no thread has been started yet: all that this process does is in its namespace
        move_in(job.descriptors.namespaces, job.hosts[job.rank] if job.hosts else job.rank)
    seat = seat_of(job, channel)
    sit(seat)  # type: ignore[arg-type]
    watch_script(seat, channel)
    run_script(job, seat)
