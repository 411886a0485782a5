"""How long things may take in every real run, and why so long. Who waits uses them as `timeouts.NAME`.

Times that name steps are the longer of the seconds and so many median steps of the run: slow models are no failures.
"""

PROCESS_STOPPED_S = 2.0
"""A process that the system says is stopped is given up then: a shorter stop passes, a longer one holds up all."""
PROCESS_STOPPED_STEPS = 5
"""A worker is given that many median steps at least: the others would not have missed it before."""
WORKER_SILENT_S = 30.0
"""A worker that runs but says nothing is given up then: a library may hold the interpreter for long, so long seldom."""
WORKER_SILENT_STEPS = 20
"""The same in median steps: one step may take many times as long, where something is compiled or loaded."""
ALL_WAIT_S = 3.0
"""While every worker waits for others, nothing at all may happen for so long: messages need far less. Slow networks add
their own patience."""
HALT_S = 1.0
"""Once a run has failed, workers may take so long to say what they waited for; who computes may not answer at all."""
CAUSE_S = 0.1
"""So long a cause is looked for: an error may be the fault of a worker whose death the system tells a moment later."""
HELPER_STOPPED_S = 1.0
"""A controller or host agent that is stopped is ended then, by who started it: before others take its silence for its
host's (engines/hosts/timeouts.py: AGENT_SILENT_S), and end who watches it."""
HELPER_LOOK_S = 0.2
"""How often the system is asked whether they are: several times within HELPER_STOPPED_S."""
STALL_S = 8.0
"""Workers must have waited for so long for one that stays in one place before it is named."""
STACK_FRESH_S = 8.0
"""A stack that was told longer ago does not count any more: its worker has gone on."""
ECHO_HELD_S = 2.0
"""Lines of a worker that has not joined are held for so long at most: scripts that print their usage end sooner."""
COMPILING_TOLD_S = 1.5
"""Kernels that take no longer were compiled before, and nobody need know."""
