"""What a worker process writes, line by line."""

import os
from collections.abc import Iterator

import pytest

from weft.engines.real.worker_output import HEAD_BYTES, TAIL_BYTES, Output


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


def test_a_line_that_is_too_long_is_cut_in_the_middle_and_says_so(pipe: Pipe) -> None:
    pipe.write(b"begin")
    for _ in range(800):
        pipe.write(b"x" * 60_000)
        assert pipe.output.read()
        assert pipe.output.read()
        assert pipe.shown == []
    pipe.write(b"end\nnext\n")
    pipe.output.read()
    long, short = pipe.shown
    left_out = 800 * 60_000 + len("beginend") - HEAD_BYTES - TAIL_BYTES
    assert long.startswith("beginxxx")
    assert long.endswith("xxxend")
    assert f"xxx ... ({left_out} bytes left out) ... xxx" in long
    assert len(long) < HEAD_BYTES + TAIL_BYTES + 50
    assert short == "next"
    pipe.hang_up()


def test_a_line_of_the_greatest_length_is_whole(pipe: Pipe) -> None:
    for _ in range(2):
        pipe.write(b"x" * ((HEAD_BYTES + TAIL_BYTES) // 2))
        pipe.output.read()
    pipe.write(b"\n")
    pipe.output.read()
    assert pipe.shown == ["x" * (HEAD_BYTES + TAIL_BYTES)]
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
