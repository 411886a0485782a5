"""What is asked of a simulation, and what that becomes."""

from pathlib import Path
from typing import Any

import pytest
from support.scripts.training_scripts import ARRAYS, ARRAYS_TRAIN, write

import weft
from weft.codecs import Form, TopK
from weft.collectives.coded_messages import CodedMessages
from weft.collectives.gathered import Gathered
from weft.collectives.lowering import Lowered
from weft.collectives.phased import Phased
from weft.config.cluster import load_cluster
from weft.core.errors import ConfigError
from weft.core.names import Bucket
from weft.engines.simulated.job import SimulatedJob

BUCKETS = (Bucket(1 << 20),)


def job(script: Path, num_workers: int, **options: Any) -> SimulatedJob:
    return SimulatedJob(script=script, arguments=(), cluster=load_cluster("rack"), num_workers=num_workers, **options)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write(tmp_path, ARRAYS, ARRAYS_TRAIN)


def test_what_is_coded_is_reduced_by_messages_whatever_else_was_asked_for(script: Path) -> None:
    coded = job(script, 4, compress="topk(0.01)").resolved(None, BUCKETS)
    assert isinstance(coded, Lowered)
    assert isinstance(coded.inner, Gathered)
    assert isinstance(coded.inner.inner, Phased)
    assert coded.inner.inner.inner == weft.AllReduce()
    assert coded.codecs() == {"gradient:topk": TopK(0.01)}


def test_messages_from_node_to_node_are_coded_where_nobody_reduces(script: Path) -> None:
    coded = job(script, 4, strategy="ssp", compress="topk(0.01)").resolved(None, BUCKETS)
    assert isinstance(coded, CodedMessages)
    assert (coded.pushed, coded.followed, coded.cast) == (("push",), ("params",), ())


def test_the_job_chooses_the_codec_then_the_script_and_one_worker_needs_none(script: Path) -> None:
    assert job(script, 4, compress="onebit").codec_for("topk") == "onebit"
    assert job(script, 4).codec_for("topk") == "topk"
    assert job(script, 1, compress="onebit").codec_for("topk") is None
    assert job(script, 4, compress="onebit").label(None) == "allreduce + onebit"


def test_a_pair_that_cannot_be_is_refused_by_the_name_of_the_strategy(script: Path) -> None:
    with pytest.raises(ConfigError, match=r"^'topk' cannot be used with 'gossip', which sends whole parameters"):
        job(script, 4, strategy="gossip", compress="topk").resolved(None, BUCKETS)


def test_an_unknown_codec_is_refused_before_anything_starts(script: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        job(script, 4, compress="topp")
    assert str(refused.value) == "codec 'topp' is not known.\n  Did you mean 'topk'?"


def test_an_explanation_says_what_the_codec_makes_of_the_model(script: Path) -> None:
    coding = job(script, 4, compress="topk(0.01)").explained(None, BUCKETS).coding
    assert coding is not None
    assert (coding.codec, coding.scheme) == ("topk(0.01)", "gather")
    assert set(coding.prices_s) == {"gather", "sparse"}
    assert coding.num_bytes == TopK(0.01).size(Form(1 << 20))


def test_labels_say_how_data_is_shared_unless_there_is_nobody_to_share_it_with(script: Path) -> None:
    assert job(script, 4, share="proportional").label("gossip") == "gossip share=proportional"
    assert job(script, 4, share="stealing", compress="fp16").label("asgd") == "asgd + fp16 share=stealing"
    assert job(script, 1, share="stealing").label(None) == "allreduce"
    assert [job(script, n, share="stealing").steals for n in (1, 2)] == [False, True]


def test_shares_that_a_strategy_cannot_work_with_are_refused_whoever_asks_for_it(script: Path) -> None:
    with pytest.raises(ConfigError, match="the workers of 'gossip' wait for each other's steps"):
        job(script, 4, strategy="gossip", share="stealing")
    with pytest.raises(ConfigError, match="the workers of 'gossip' wait for each other's steps"):
        job(script, 4, share="stealing").resolved(weft.Gossip())
    with pytest.raises(ConfigError, match=r"share 'equal' is not known.\n  Known: proportional, static, stealing."):
        job(script, 4, share="equal")
    assert job(script, 4, share="stealing").resolved("asgd") == weft.AsyncSGD()
