"""The process of one worker: takes its seat, runs the user's script, and tells the launcher how it ended."""

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
from weft.parent_death import die_with_parent
from weft.runtime.channel import Channel
from weft.runtime.measure.script_watch import watch_script
from weft.runtime.messages import WorkerJob


def main(channel_fd: int, shared: Sequence[int]) -> None:
    """Run the worker whose channel is `channel_fd`; `shared` are the descriptors of memory, bells and namespaces."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides how Ctrl-C ends a run
    os.register_at_fork(after_in_child=die_with_parent)  # a DataLoader's processes end with the worker, even on SIGKILL
    channel = Channel(socket.socket(fileno=channel_fd))
    job = next(iter(channel.receive(wait=True)))
    assert isinstance(job, WorkerJob)
    job = msgspec.structs.replace(job, descriptors=keep_own(shared, job))
    if job.descriptors.namespaces:  # setns moves one thread only: no other has been started yet
        move_in(job.descriptors.namespaces, job.hosts[job.rank] if job.hosts else job.rank)
    seat = seat_of(job, channel)
    sit(seat)  # type: ignore[arg-type]
    watch_script(seat, channel)
    run_script(job, seat)
