"""Timeouts between hosts, and the reason for each; used as `timeouts.NAME`. These processes wait by these timeouts:

    worker      ALL_JOINED, NOTE, AGENT_MEETS, PART_TOLD, AGENT_ENDED
    agent       AGENT_CONNECTED, HELLO, FIRST_HEARTBEAT, LAST_WORDS, ORPHANS_END
    controller  AGENTS_CALL, AGENT_SILENT, FAILED_ENDS, FAREWELL

If A waits for B while B waits for C, A's timeout is the longer: tests/engines/hosts/test_timeouts.py has the pairs.
"""

STORE_S_MAX = 60.0
"""For connecting to the store of the rendezvous: the process that serves it may be started after this one."""
ALL_JOINED_S_MAX = 300.0
"""For all workers to call weft.join: scripts may load their data before, some longer than others."""
ALL_JOINED_TOLD_S = 15.0
"""How often worker 0 prints that it waits for others."""
NOTE_S_MAX = 60.0
"""For a note of a worker that has joined; worker 0 starts the controller before it posts 'lead'."""
AGENT_MEETS_S_MAX = 90.0
"""For a worker to be let in by its host agent, which has to import Weft, and waits for the controller itself."""
AGENT_CALLED_S = 0.01
"""How often a worker calls a host agent that does not listen yet, and the shortest wait for the agent's answer."""
PART_TOLD_S_MAX = 60.0
"""For a worker to get its WorkerJob after it was let in: first, all host agents connect to the controller."""
LOST_ENGINE_NOTICED_S = 1.0
"""For the script's thread to notice that the engine is gone, and print it, before the process is ended."""
AGENT_ENDED_S_MAX = 10.0
"""For the host agent to end, after a worker has: longer than LAST_WORDS_S_MAX."""
ONE_SIGNAL_S = 1.0
"""Signals that come closer together count as one: a terminal and a launcher both pass Ctrl-C on."""
SIBLINGS_LOOK_S = 0.5
"""How often sibling workers' states are read from /proc: several times within PROCESS_STOPPED_S, after which a stopped
one is killed."""

AGENT_CONNECTED_S_MAX = 30.0
"""For a host agent to connect to the controller, whose socket listens already, but which may still be starting."""
HELLO_S_MAX = 0.5
"""For a connected worker to send `Hello`: it is on the same host, and the agent serves no other worker meanwhile."""
HEARTBEAT_S = 0.2
"""How often agents and controller send each other heartbeats: ten times within AGENT_SILENT_S."""
FIRST_HEARTBEAT_S_MAX = 5.0
"""How long the controller may be silent before its first heartbeat says how long it may be."""
OWN_STALL_S = 0.5
"""If turns of a process's loop are further apart, the process itself was held up, and the silence of others means
nothing. An idle turn takes half a heartbeat."""
LAST_WORDS_S_MAX = 5.0
"""For a host agent's last messages to leave; the controller closes the link sooner, when it has heard all."""
ORPHANS_END_S = 1.0
"""For workers to end by themselves when the controller is gone and the agent has closed their channels."""

AGENTS_CALL_S_MAX = 60.0
"""For all host agents to connect to the controller: they are started when all workers have joined, on hosts that may be
busy importing."""
AGENT_SILENT_S = 2.0
"""A host from which nothing comes for this long is lost: ten heartbeats."""
AGENT_SILENT_STEPS = 5
"""The same in median steps of the run, if that is longer: a silence that is short for the run does no harm."""
FAILED_ENDS_S = 0.8
"""For a failed worker to end with its own error, before the others are ended."""
FAREWELL_S_MAX = 1.0
"""For the controller's last messages to leave, per host."""
