"""What the system says of processes that are stopped."""

import os
import signal

from support.processes.agents import sleeper

from weft.engines.real.stopped_processes import Stops, children_of, parent_of, process_state


def test_the_system_says_what_a_process_does_and_whose_child_it_is() -> None:
    assert process_state(os.getpid()) == "R"
    assert (process_state(2**30), parent_of(2**30), children_of(2**30)) == ("", 0, [])
    with sleeper() as pid:
        assert parent_of(pid) == os.getpid()
        assert pid in children_of(os.getpid())
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        assert process_state(pid) == "T"


def test_a_stop_counts_from_when_it_was_first_seen_until_the_process_goes_on() -> None:
    stops = Stops[str]()
    assert stops.see({"a": "T", "b": "S", "c": "t"}, 1.0) == {"a": 0.0, "c": 0.0}
    assert stops.see({"a": "T", "b": "T", "c": "R"}, 3.0) == {"a": 2.0, "b": 0.0}
    assert stops.see({"c": "T"}, 4.0) == {"c": 0.0}
