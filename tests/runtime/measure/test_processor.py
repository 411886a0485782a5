"""What processor this is."""

import platform
from pathlib import Path

import pytest

from weft.runtime.measure import processor
from weft.runtime.measure.processor import processor_kind, processor_name

TEXT = "processor\t: 0\nmodel name\t: Fast 7: B\nflags\t\t: fma avx2\n\nprocessor\t: 1\nmodel name\t: Slow\n"


@pytest.mark.processes
def test_a_processor_is_told_by_its_name_and_by_what_it_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "cpuinfo"
    monkeypatch.setattr(processor, "CPUINFO", told)
    assert processor_name() == (platform.processor() or platform.machine())
    told.write_text(TEXT)
    first = processor_kind()
    assert processor_name() == "Fast 7: B"
    assert first.startswith("Fast 7: B [")
    assert processor_kind() == first
    told.write_text(TEXT.replace("avx2", "avx512"))
    assert processor_kind() != first
