"""What each worker asks of a Ray cluster."""

import pytest

from weft.core.errors import ConfigError
from weft.engines.ray.resources import lacking, num_places, read_resources, words


@pytest.mark.parametrize(
    ("text", "bundle"),
    [
        (None, {"CPU": 1.0}),
        ("cpu=2", {"CPU": 2.0}),
        ("cpu=1,gpu=0", {"CPU": 1.0}),
        ("cpu=0, gpu=0.5", {"GPU": 0.5}),
        ("CPU=1,memory=2GiB,tpu_slice=1", {"CPU": 1.0, "memory": 2.0**31, "tpu_slice": 1.0}),
    ],
)
def test_resources_are_read_by_the_names_that_ray_has_for_them(text: str | None, bundle: dict[str, float]) -> None:
    assert read_resources(text) == bundle


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu", "got 'cpu', but wants NAME=NUMBER"),
        ("cpu=1,,gpu=1", "got '', but wants NAME=NUMBER"),
        ("cpu=many", "got 'CPU=many', but wants a whole number"),
        ("gpu=-1", "got 'GPU=-1', but wants a whole number"),
        ("gpu=1.5", "or a part of one from 0 to 1"),
        ("cpu=nan", "got 'CPU=nan'"),
        ("cpu=0", "asks for nothing, but a worker needs a place"),
        ("memory=2", "wants a number with one of the units"),
    ],
)
def test_what_is_no_resource_is_refused_with_an_example(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_resources(text)
    assert message in str(caught.value)
    assert "Write e.g." in str(caught.value)


def test_a_worker_has_all_of_its_resources_on_one_node() -> None:
    nodes = [{"CPU": 3.0, "GPU": 1.0}, {"CPU": 8.0}]
    assert num_places({"CPU": 2.0}, nodes) == 5
    assert num_places({"CPU": 1.0, "GPU": 0.5}, nodes) == 2
    assert num_places({"CPU": 0.1}, [{"CPU": 0.3}]) == 3


def test_a_cluster_that_is_too_small_is_told_from_one_that_is_busy() -> None:
    nodes = [{"CPU": 2.0}, {"CPU": 2.0}]
    small = lacking(5, {"CPU": 1.0}, nodes, {"CPU": 4.0}, 10)
    assert "5 workers ask for cpu=1 each, but the Ray cluster has cpu=4 on 2 nodes: room for 4." in small
    assert "Use -n 4, another --set ray.resources" in small
    assert "room for 0.\n  Use another" in lacking(1, {"GPU": 1.0}, nodes, {}, 10)
    busy = lacking(3, {"CPU": 1.0}, nodes[:1] * 2, {"CPU": 1.0}, 10)
    assert "of the cpu=4 that the Ray cluster has on 2 nodes, cpu=1 were free within 10 s" in busy
    assert "ray.patience_s" in busy


def test_resources_are_said_as_they_are_written() -> None:
    assert words({"CPU": 1.0, "GPU": 0.5, "tpu": 2.0}) == "cpu=1,gpu=0.5,tpu=2"
