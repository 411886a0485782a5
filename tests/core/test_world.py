"""The world a peer lives in."""

from weft.core.names import Bucket, Buffer, Role, Roles
from weft.core.world import World

TRAINED, STATE = Bucket(10), Bucket(3, trainable=False)


def world(num_workers: int, num_servers: int = 0, buckets: tuple[Bucket, ...] = (TRAINED,)) -> World:
    return World(Roles(num_workers, num_servers), buckets)


def test_workers_have_the_first_ids_and_servers_follow() -> None:
    here = world(3, 2)
    assert here.workers == (0, 1, 2)
    assert here.servers == (3, 4)
    assert (here.num_workers, here.num_nodes) == (3, 5)
    assert [here.role(node) for node in (0, 2, 3, 4)] == [Role.WORKER, Role.WORKER, Role.SERVER, Role.SERVER]


def test_people_count_servers_from_zero() -> None:
    assert [world(3, 2).name(node) for node in (0, 2, 3, 4)] == ["worker 0", "worker 2", "server 0", "server 1"]


def test_buckets_that_are_not_trained_are_left_out_of_the_trainable_ones() -> None:
    assert world(1, buckets=(TRAINED, STATE, TRAINED)).trainable == (0, 2)


def test_the_bucket_of_tuned_values_is_known_where_there_is_one() -> None:
    tuned = Bucket(2, 8, trainable=False, tuned=True)
    assert world(1, buckets=(TRAINED, STATE)).tuned is None
    assert world(1, buckets=(TRAINED, STATE, tuned)).tuned == 2
    assert world(1, buckets=(TRAINED, STATE, tuned)).trainable == (0,)


def test_buckets_are_dealt_to_the_servers_in_turn() -> None:
    here = world(2, 2, (TRAINED, TRAINED, TRAINED))
    assert [here.server_of(bucket) for bucket in range(3)] == [2, 3, 2]
    assert [here.buckets_of(server) for server in here.servers] == [(0, 2), (1,)]


def test_a_server_keeps_no_bucket_that_is_not_trained() -> None:
    assert world(1, 2, (TRAINED, STATE, TRAINED)).buckets_of(2) == ()


def test_a_server_without_a_bucket_keeps_none() -> None:
    assert world(1, 3).buckets_of(3) == ()


def test_the_buckets_of_params_and_gradient_are_named_ready_made() -> None:
    here = world(1, buckets=(TRAINED, STATE))
    assert here.params == (Buffer("params", 0), Buffer("params", 1))
    assert here.gradient == (Buffer("gradient", 0), Buffer("gradient", 1))


def test_worlds_with_the_same_nodes_and_buckets_are_equal() -> None:
    assert world(3, 2) == world(3, 2) != world(2, 3)
