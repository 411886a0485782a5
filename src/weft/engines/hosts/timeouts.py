"""How long things may take between hosts, and why so long. Who waits uses them as `timeouts.NAME`.

    worker      ALL_JOINED, NOTE, AGENT_MEETS, PART_TOLD, AGENT_ENDED    waits for the others, the agent, its end
    agent       AGENT_CONNECTED, HELLO, FIRST_HEARTBEAT, LAST_WORDS, ORPHANS_END
    controller  AGENTS_CALL, AGENT_SILENT, FAILED_ENDS, FAREWELL

Who starts the wait of somebody else waits longer than that one: tests/engines/hosts/test_timeouts.py says which.
"""

STORE_S_MAX = 60.0
"""The store where all meet is there then: the process that has it may be started after this one."""
ALL_JOINED_S_MAX = 300.0
"""All workers have called weft.join then. Scripts may load their data before they do, some longer than others."""
ALL_JOINED_TOLD_S = 15.0
"""How often worker 0 says that it waits for others: often enough to be believed, seldom enough to be read."""
NOTE_S_MAX = 60.0
"""A note of somebody who has joined is at the rendezvous then; worker 0 starts the controller before it writes one."""
AGENT_MEETS_S_MAX = 90.0
"""A worker is let in by its host agent then, which has to import Weft, and waits for the controller itself."""
AGENT_CALLED_S = 0.01
"""How often a worker calls a host agent that does not listen yet, and the least that it gives it to answer."""
PART_TOLD_S_MAX = 60.0
"""A worker that was let in is told its part then: when the agents of all hosts have called the controller."""
LOST_ENGINE_NOTICED_S = 1.0
"""The script has so long to notice by itself that its engine is gone, and to say so, before its process is ended."""
AGENT_ENDED_S_MAX = 10.0
"""A worker that has ended waits so long at most for its host agent to end, whose last words take less."""
ONE_SIGNAL_S = 1.0
"""Signals that come closer together are one: a terminal and an engine both pass Ctrl-C on."""
SIBLINGS_LOOK_S = 0.5
"""How often the system is asked for the states of the workers beside one: several times until one that is stopped is
given up."""

AGENT_CONNECTED_S_MAX = 30.0
"""A host agent has reached the controller then: its socket listens before anybody is told where, but it may still be
starting."""
HELLO_S_MAX = 0.5
"""A worker that has called says who it is then. It is a process of this host, and all others wait meanwhile."""
HEARTBEAT_S = 0.2
"""How often agents and controller tell each other that they are there: ten times until silence means anything."""
FIRST_HEARTBEAT_S_MAX = 5.0
"""Until the controller has said how long it may be silent, it may be for so long."""
OWN_STALL_S = 0.5
"""Turns that are further apart say that it was this process that was held up, not the other that is silent: a turn
takes half a heartbeat when nothing happens."""
LAST_WORDS_S_MAX = 5.0
"""What a host agent said last may take so long to leave; the controller hangs up sooner, when it has heard all."""
ORPHANS_END_S = 1.0
"""Workers may take so long to end by themselves once the controller is gone, for their channels end, too."""

AGENTS_CALL_S_MAX = 60.0
"""All host agents have called the controller then: they are started when all workers are there, on hosts that may be
busy importing."""
AGENT_SILENT_S = 2.0
"""A host that says nothing for so long is lost: ten heartbeats."""
AGENT_SILENT_STEPS = 5
"""Or so many median steps, if that is longer: what is long for a heartbeat may be short for the run."""
FAILED_ENDS_S = 0.8
"""A worker that has failed may take so long to end, with its own error, before the others are ended."""
FAREWELL_S_MAX = 1.0
"""What the controller said last may take so long to leave for each host."""
