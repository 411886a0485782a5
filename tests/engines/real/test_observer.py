"""Whoever looks on need not look at everything."""

from dataclasses import fields

from weft.engines.real.observer import Watcher


def test_a_watcher_may_leave_out_what_it_does_not_want_to_know() -> None:
    told: list[str] = []
    watcher = Watcher(on_tell=told.append)
    watcher.on_line(0, "hello", False)
    watcher.on_report(0, {"accuracy": 0.5})
    watcher.on_turn()
    watcher.on_tell("stopping")
    assert told == ["stopping"]
    assert all(callable(getattr(watcher, field.name)) for field in fields(Watcher))
