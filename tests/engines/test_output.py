"""What a worker process writes, line by line."""

import os
from collections.abc import Iterator

import pytest

from weft.engines.output import LINE_BYTES_MAX, Output


class Pipe:
    """Both ends of a worker's output, and the lines that were shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        end, self._write = os.pipe()
        self.output = Output(end, self.shown.append)

    def write(self, raw: bytes) -> None:
        os.write(self._write, raw)

    def hang_up(self) -> None:
        os.close(self._write)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    if not made.output.is_closed:
        made.output.close()


def test_only_whole_lines_are_shown(pipe: Pipe) -> None:
    pipe.write(b"first\nsec")
    assert pipe.output.read() is True
    assert pipe.shown == ["first"]
    pipe.write(b"ond\r\n\nthird\n")
    assert pipe.output.read() is True
    assert pipe.shown == ["first", "second", "", "third"]
    pipe.hang_up()


def test_when_nothing_has_come_nobody_waits(pipe: Pipe) -> None:
    assert pipe.output.read() is True
    assert pipe.shown == []
    pipe.hang_up()


def test_the_last_line_is_shown_even_if_it_was_not_ended(pipe: Pipe) -> None:
    pipe.write(b"done\nwithout an end")
    pipe.hang_up()
    assert [pipe.output.read(), pipe.output.read()] == [True, False]
    assert pipe.shown == ["done", "without an end"]
    assert pipe.output.read() is False
    assert pipe.shown == ["done", "without an end"]


def test_a_line_without_an_end_is_shown_in_pieces(pipe: Pipe) -> None:
    written = 0
    while not pipe.shown:
        pipe.write(b"x" * 40_000)
        written += 40_000
        assert pipe.output.read()
        assert written <= LINE_BYTES_MAX + 80_000
    pipe.write(b"end\n")
    pipe.output.read()
    assert "".join(pipe.shown) == "x" * written + "end"
    pipe.hang_up()


def test_bytes_that_are_no_text_are_shown_as_such_and_end_nothing(pipe: Pipe) -> None:
    pipe.write(b"\xff\xfe ok\n" + "grün\n".encode())
    pipe.output.read()
    assert pipe.shown == ["\ufffd\ufffd ok", "grün"]
    pipe.hang_up()


def test_an_output_can_be_waited_for_and_closed(pipe: Pipe) -> None:
    assert os.fstat(pipe.output.fileno())
    pipe.output.close()
    assert pipe.output.is_closed
    pipe.hang_up()
