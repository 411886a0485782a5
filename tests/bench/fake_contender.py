"""A contender whose work says how it behaves: `python -m fake_contender TASK`."""

import signal
import sys

if '"mute"' in sys.argv[1]:
    signal.pause()  # as if its imports took for ever

from weft.bench.serving import own_task, serve

task = own_task()
if task.work == "broken":
    sys.exit("it could not start")
repeats = {
    "steady": lambda: None,
    "fragile": lambda: sys.exit(f"rank {task.rank} fell"),
    "stuck": signal.pause,
}
serve(task, repeats[task.work])
