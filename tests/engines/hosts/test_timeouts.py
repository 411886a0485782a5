"""Times between hosts fit together: who waits for somebody who waits, waits longer."""

from weft.engines.hosts import timeouts
from weft.engines.real import timeouts as real_timeouts


def test_silence_is_many_heartbeats_and_more_than_a_stall_of_ones_own() -> None:
    assert 10 * timeouts.HEARTBEAT_S <= timeouts.AGENT_SILENT_S
    assert 2 * timeouts.HEARTBEAT_S < timeouts.OWN_STALL_S < timeouts.AGENT_SILENT_S
    assert timeouts.AGENT_SILENT_S < timeouts.FIRST_HEARTBEAT_S_MAX


def test_a_worker_waits_longer_for_its_agent_than_that_one_for_the_controller() -> None:
    assert timeouts.AGENT_CONNECTED_S_MAX < timeouts.AGENT_MEETS_S_MAX


def test_a_worker_waits_for_its_part_as_long_as_the_controller_for_the_agents_of_other_hosts() -> None:
    assert timeouts.AGENTS_CALL_S_MAX <= timeouts.PART_TOLD_S_MAX


def test_a_worker_that_has_ended_waits_longer_than_its_agents_last_words_take() -> None:
    assert timeouts.LAST_WORDS_S_MAX < timeouts.AGENT_ENDED_S_MAX
    assert timeouts.FAREWELL_S_MAX < timeouts.LAST_WORDS_S_MAX


def test_worker_0_says_many_times_that_it_waits_before_it_gives_up() -> None:
    assert 10 * timeouts.ALL_JOINED_TOLD_S <= timeouts.ALL_JOINED_S_MAX


def test_siblings_are_looked_at_several_times_before_one_is_given_up() -> None:
    assert 4 * timeouts.SIBLINGS_LOOK_S <= real_timeouts.PROCESS_STOPPED_S
