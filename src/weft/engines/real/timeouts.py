"""The timeouts of every real run, and the reason for each; used as `timeouts.NAME`.

Where there is one in seconds (_S) and one in steps (_STEPS, median steps of the run), the longer counts: a slow model
is no failure.
"""

PROCESS_STOPPED_S = 2.0
"""A process that stays stopped (SIGSTOP) this long is given up: shorter stops do no harm, longer ones hold up all."""
PROCESS_STOPPED_STEPS = 5
"""The same in median steps: the other workers would not have missed it sooner."""
WORKER_SILENT_S = 30.0
"""A worker that runs but sends nothing for this long is given up: a library may hold the GIL, but seldom this long."""
WORKER_SILENT_STEPS = 20
"""The same in median steps: one step may take many times as long, where something is compiled or loaded."""
ALL_WAIT_S = 3.0
"""A run in which every worker waits and nothing changes for this long is a deadlock: messages need far less. Slow
networks add their own patience."""
HALT_S = 1.0
"""After a failure, workers have this long to say what they waited for; one that computes may not answer at all."""
CAUSE_S = 0.1
"""After an error, other failures are awaited for this long: the cause may be a worker whose death is noticed later."""
HELPER_STOPPED_S = 1.0
"""A controller or host agent that is stopped for this long is killed by the process that started it: before its silence
counts as the loss of its host (engines/hosts/timeouts.py: AGENT_SILENT_S)."""
HELPER_LOOK_S = 0.2
"""How often /proc is read to find such processes: several times within HELPER_STOPPED_S."""
STALL_S = 8.0
"""Other workers must have waited for this long before a worker that stays in one place is named."""
STACK_FRESH_S = 8.0
"""A stack that came longer ago does not count: its worker has gone on."""
OWN_STALL_S = 0.4
"""A turn of the engine's loop that took longer, because a disk was slow, say: messages wait that must be heard before
anybody is judged by the clock. Longer than a turn in which nothing happens, shorter than LINK_BROKEN_S."""
LINK_BROKEN_S = 0.5
"""After a connection broke, the death of one of its two processes is known within this time, also on another host. If
both live, one is given up."""
LAYING_OUT_S = 5.0
"""After a worker died while training began, the others have this long to lay their models out and go on without it;
those that connect to it by sockets cannot, and the run ends."""
STANDS_STILL_S = 0.1
"""Where scripts stop for newcomers, and one has not stopped for this long: it may wait for steps of those that have.
Doubled each time that these have made one more."""
REST_S = 10.0
"""All members stand still while newcomers come in: those that have not come within this time are ended."""
CHECKPOINT_DUE_S = 0.5
"""Where all make the same steps, all stop before the same one for a checkpoint: those that have not within this time
count otherwise, as newcomers may, and one more step is made."""
DEPART_S = 5.0
"""A worker that leaves in order has this long to answer the others and to end; one that was stopped meanwhile is
killed, or all would wait for it."""
REPLACED_OFTEN_S = 60.0
"""A worker that was started anew several times (`replacement.TIMES_MAX`) within this time is not replaced again: what
ended it would end it again."""
ECHO_HELD_S = 2.0
"""Lines of a worker that has not joined are held for this long at most: scripts that print their usage end sooner."""
COMPILING_TOLD_S = 1.5
"""The user is told of kernels being compiled after this long: those compiled earlier load faster."""
