"""A rendezvous over torch's TCPStore."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from weft.adapters.torch.rendezvous import TorchRendezvous
from weft.core.errors import TransportError

HERE = "127.0.0.1"


def store() -> dist.TCPStore:
    """As an agent of torchrun has one running."""
    return dist.TCPStore(HERE, 0, is_master=True, wait_for_workers=False)


def test_what_one_process_posts_all_read_in_the_order_they_ask_for() -> None:
    theirs = store()
    one, other = (TorchRendezvous.at(HERE, theirs.port, "run/0") for _ in range(2))
    one.post("a", b"first")
    one.post("b", b"")
    assert other.read(["b", "a"], 5.0) == [b"", b"first"]
    assert other.read([], 5.0) == []


def test_a_reader_waits_for_what_is_not_there_yet() -> None:
    theirs = store()
    one, other = (TorchRendezvous.at(HERE, theirs.port, "run/0") for _ in range(2))
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(other.read, ["late"], 10.0)
        one.post("late", b"here")
        assert reading.result() == [b"here"]


def test_runs_and_attempts_do_not_see_each_others_notes() -> None:
    theirs = store()
    TorchRendezvous(theirs, "run/0").post("a", b"old")
    with pytest.raises(TransportError):
        TorchRendezvous(theirs, "run/1").read(["a"], 0.05)
    assert TorchRendezvous(theirs, "run/0").read(["a"], 1.0) == [b"old"]


def test_whoever_claims_a_name_learns_how_many_have() -> None:
    theirs = store()
    one, other = (TorchRendezvous.at(HERE, theirs.port, "run/0") for _ in range(2))
    one.post("a", b"a note of the same name")
    assert [rendezvous.claim("a") for rendezvous in (one, other, one)] == [1, 2, 3]
    assert (one.claim("b"), one.read(["a"], 1.0)) == (1, [b"a note of the same name"])


def test_those_that_are_missing_are_named_and_only_those() -> None:
    rendezvous = TorchRendezvous(store(), "run/0")
    rendezvous.post("there", b"")
    with pytest.raises(TransportError) as refused:
        rendezvous.read(["there", "one", "two"], 0.05)
    assert str(refused.value) == "after 0.05 s no process had posted 'one', 'two'."
    with pytest.raises(TransportError) as refused:
        rendezvous.read([str(number) for number in range(10)], 0.05)
    assert str(refused.value).endswith("'6', '7' and 2 more.")


def test_a_store_that_nobody_has_is_named_with_its_address() -> None:
    theirs = store()
    port = theirs.port
    del theirs
    with pytest.raises(TransportError) as refused:
        TorchRendezvous.at(HERE, port, "run/0", timeout_s=0.2)
    first, second = str(refused.value).splitlines()
    assert first.startswith(f"the store at {HERE}:{port}, where the run's processes meet, cannot be reached: ")
    assert second == "  Is that address this run's, and its port open between the hosts?"


@pytest.mark.slow
def test_a_host_listens_on_its_own_address_and_no_other() -> None:
    free = store()
    port = free.port
    del free
    rendezvous = TorchRendezvous.at("127.0.0.2", port, "run/0", is_host=True)
    rendezvous.post("a", b"b")
    assert TorchRendezvous.at("127.0.0.2", port, "run/0").read(["a"], 1.0) == [b"b"]
    with pytest.raises(TransportError, match="cannot be reached"):
        TorchRendezvous.at("127.0.0.3", port, "run/0", timeout_s=0.2)
    with pytest.raises(TransportError, match=r"cannot be made: .*Address already in use"):
        TorchRendezvous.at("127.0.0.2", port, "run/0", is_host=True)


def test_a_store_that_ends_is_told_of() -> None:
    theirs = store()
    rendezvous = TorchRendezvous.at(HERE, theirs.port, "run/0")
    rendezvous.post("a", b"b")
    del theirs
    with pytest.raises(TransportError, match="the store where the run's processes meet is gone: "):
        rendezvous.read(["a"], 1.0)
    with pytest.raises(TransportError, match="the store where the run's processes meet is gone: "):
        rendezvous.claim("a")
