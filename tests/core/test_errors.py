"""The one tree of errors."""

import pickle

import pytest

from weft.core import errors
from weft.core.errors import (
    CheckpointError,
    CodecError,
    ConfigError,
    Deadlock,
    IllegalAction,
    IllegalCall,
    NodeLost,
    ProtocolError,
    TransportError,
    UnexpectedMessage,
    WeftError,
    did_you_mean,
)


@pytest.mark.parametrize(
    "error", [ConfigError, ProtocolError, Deadlock, TransportError, NodeLost, CodecError, CheckpointError, IllegalCall]
)
def test_every_error_of_weft_is_a_weft_error(error: type[Exception]) -> None:
    assert error.__base__ is WeftError


@pytest.mark.parametrize("error", [IllegalAction, UnexpectedMessage])
def test_a_protocol_breaks_by_ones_own_bug_or_by_anothers(error: type[Exception]) -> None:
    assert error.__base__ is ProtocolError


def test_the_tree_at_the_top_of_the_file_names_every_error_once() -> None:
    defined = {
        name for name, thing in vars(errors).items() if isinstance(thing, type) and thing.__module__ == errors.__name__
    }
    drawn = [word for word in (errors.__doc__ or "").split() if word in defined]
    assert sorted(drawn) == sorted(defined)


def test_a_protocol_error_tells_its_story_below_its_message() -> None:
    assert str(IllegalAction("that was wrong.")) == "that was wrong."
    assert str(IllegalAction("that was wrong.", "  it went so")) == "that was wrong.\n  it went so"


def test_a_protocol_error_keeps_its_story_on_the_way_to_another_process() -> None:
    error = UnexpectedMessage("what is this?")
    error.story = "  it came so"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is UnexpectedMessage
    assert str(again) == "what is this?\n  it came so"


def test_the_nearest_known_name_is_suggested() -> None:
    assert did_you_mean("gosip", ["allreduce", "gossip", "ssp"]) == "Did you mean 'gossip'?"


def test_all_names_are_listed_when_none_is_near() -> None:
    assert did_you_mean("xyzzy", ["ssp", "allreduce"]) == "Known: allreduce, ssp."
    assert did_you_mean("xyzzy", []) == "None are known."
    assert did_you_mean("xyzzy", ["ssp"], "Leave it out.") == "Leave it out."
    assert did_you_mean("spp", ["ssp"], "Leave it out.") == "Did you mean 'ssp'?"
