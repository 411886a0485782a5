"""Kernels are compiled before anything starts."""

import sys

import pytest

from weft.codecs import TopK
from weft.engines.real import timeouts
from weft.engines.real.kernels import compile_kernels


def test_without_a_codec_nothing_is_compiled() -> None:
    assert compile_kernels(None) == []


def test_the_modules_of_a_codec_are_loaded_and_named() -> None:
    names = compile_kernels("onebit")
    assert "weft.codecs.kernels.signs" in names
    assert all(name in sys.modules for name in names)


def test_somebody_who_waits_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "COMPILING_TOLD_S", 0.0)
    told: list[str] = []

    def slow(codec: TopK, itemsize: int) -> None:
        while not told:
            pass

    monkeypatch.setattr(TopK, "prepare", slow)
    compile_kernels("topk(0.01)", told.append)
    assert told == ["compiling 'topk(0.01)' for this machine, once: that may take a minute"]
