"""Whoever looks on need not look at everything."""

from dataclasses import fields

from weft.engines.real.observer import Observer


def test_a_watcher_may_leave_out_what_it_does_not_want_to_know() -> None:
    told: list[str] = []
    observer = Observer(on_tell=told.append)
    observer.on_line(0, "hello", False)
    observer.on_report(0, {"accuracy": 0.5})
    observer.on_turn()
    observer.on_tell("stopping")
    assert told == ["stopping"]
    assert all(callable(getattr(observer, field.name)) for field in fields(Observer))
