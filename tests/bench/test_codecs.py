"""`weft bench codecs`."""

from dataclasses import replace

import pytest

from weft.bench.benchmark import Work, measure
from weft.bench.codecs import CODECS, DECODING, NAMES


@pytest.mark.processes
def test_weft_torch_and_a_copy_compete_both_ways() -> None:
    works = (Work("onebit", "onebit/64KiB", 1), Work("onebit-decode", "onebit-decode/64KiB", 1))
    report = measure(replace(CODECS, works=works, block_s=1e-3), works, 2)
    assert [(row["work"], row["contender"]) for row in report["rows"]] == [
        (work, contender) for work in ("onebit", "onebit-decode") for contender in ("weft", "torch", "memcpy")
    ]
    assert set(report["ratios"]) == {"torch/onebit", "memcpy/onebit", "torch/onebit-decode", "memcpy/onebit-decode"}


def test_the_bars_are_those_of_the_issue_and_name_what_is_measured() -> None:
    rivals, works = {one.ratio_name for one in CODECS.contenders}, {work.name for work in CODECS.works}
    assert works == {f"{name}{way}" for name in NAMES for way in ("", DECODING)}
    assert all(key.split("/")[0] in rivals and key.split("/")[1] in works for key in CODECS.bars)
    assert CODECS.bars["memcpy/onebit"] == 0.4
    assert CODECS.bars["memcpy/topk"] == 0.15
    assert CODECS.bars["topk/blocktopk"] == 0.7
    assert CODECS.bars["torch/dgc"] == 3
    assert CODECS.bars["torch/fp16"] == 0.95
