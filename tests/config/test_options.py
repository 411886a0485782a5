"""Options of a real run that few need to change."""

from pathlib import Path

import pytest

from weft.config.devices import FakeKind
from weft.config.options import (
    COMPARE,
    LEAVES,
    PYTHON,
    RUN,
    SIMULATE,
    TORCHRUN,
    BucketOptions,
    Checked,
    Data,
    NetworkOptions,
    Options,
    OutboxOptions,
    RayOptions,
    ReduceOptions,
    ShareOptions,
    WaitingOptions,
    WorkerOptions,
    Write,
    check_takes,
    keys,
    set_options,
    with_parameters,
)
from weft.config.registry import strategy
from weft.core.errors import ConfigError


def test_without_settings_everything_is_as_its_owner_says() -> None:
    assert set_options([]) == (Options(), {})


def test_values_are_in_the_unit_that_their_name_says() -> None:
    texts = ["worker.threads=3", "buckets.bytes_max=1MiB", "waiting.spin_s=500ms", "outbox.bytes_max=1000"]
    texts += ["worker.keeps_memory=False", "shares.every=4", "network.trusted=true", "data.global_batch=64"]
    texts += ["ray.resources=cpu=1,gpu=0", "write.log=a b.jsonl", "run.check_replay=true", "reduce.collective=auto"]
    options, of_strategy = set_options(texts)
    assert options == Options(
        WorkerOptions(3, keeps_memory=False),
        Data(64),
        BucketOptions(1 << 20),
        WaitingOptions(0.5),
        OutboxOptions(1000),
        ShareOptions(4),
        ReduceOptions("auto"),
        NetworkOptions(trusted=True),
        RayOptions(resources="cpu=1,gpu=0"),
        Write(log=Path("a b.jsonl")),
        Checked(check_replay=True),
    )
    assert of_strategy == {}


def test_sums_have_a_place_that_is_chosen_unless_it_is_said() -> None:
    assert Options().reduce.place == "auto"
    assert set_options(["reduce.place=device"])[0].reduce.place == "device"


def test_the_last_of_two_settings_counts_and_others_stay() -> None:
    options, _ = set_options(["worker.threads=3", "waiting.spin_s=0s", "worker.threads=4"])
    assert options == Options(worker=WorkerOptions(4), waiting=WaitingOptions(0.0))


def test_devices_of_several_workers_are_collected_and_the_last_of_each_counts() -> None:
    texts = ["worker.device=1:fake(bandwidth=1GB/s, latency=5ms),2:fake", "worker.device=2:fake(latency=1us)"]
    options, _ = set_options([*texts, "worker.device=0:fake"])
    assert dict(options.worker.device) == {0: FakeKind(), 1: FakeKind(0.005, 1e9), 2: FakeKind(1e-6)}


@pytest.mark.parametrize("key", LEAVES)
def test_every_option_can_be_set_to_its_example_and_says_what_it_does(key: str) -> None:
    section, _, name = key.partition(".")
    options, _ = set_options([f"{key}={LEAVES[key].example}"])
    read = LEAVES[key].reads(LEAVES[key].example, key)
    assert getattr(getattr(options, section), name) == read
    assert LEAVES[key].does
    assert set(LEAVES[key].takers) <= {RUN, COMPARE, SIMULATE, TORCHRUN, PYTHON}


def test_options_that_say_nothing_somewhere_are_refused_there() -> None:
    texts = ["strategy.staleness=3", "reduce.collective=ring", "nothing.known=1", "write.trace=a.json"]
    assert keys(texts) == ["reduce.collective", "nothing.known", "write.trace"]
    check_takes(SIMULATE, texts)
    for taker in (COMPARE, TORCHRUN, PYTHON):
        with pytest.raises(ConfigError) as refused:
            check_takes(taker, texts)
        assert str(refused.value) == (
            f"--set write.trace is for weft run and weft simulate, not for {taker}.\n  Leave it out."
        )


def test_parameters_of_the_strategy_are_told_apart() -> None:
    texts = ["strategy.topology=torus(2, 4)", "strategy.staleness=none", "worker.threads=2"]
    options, of_strategy = set_options(texts)
    assert (options, of_strategy) == (Options(WorkerOptions(2)), {"topology": "torus(2, 4)", "staleness": "none"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (
                text,
                f"--set got '{text}', but wants section.name=value.\n"
                "  Write e.g. --set worker.threads=2; weft run --set help lists all.",
            )
            for text in ("", "worker", "worker.threads", "worker=2", "worker.=2", "worker.threads=", "=2")
        ),
        (
            "run.chaos=",
            "--chaos is '', but wants what happens first: kill, stop or nan.\n  Write e.g. 'kill every 15s seed 7'.",
        ),
        (
            "run.on_loss=again",
            "--on-loss is 'again', but wants stop, shrink or replace.\n  Write one of them, e.g. replace.",
        ),
        ("run.on_nan=", "--on-nan is '', but wants exclude or stop.\n  Write one of them."),
        (
            "checkpoint.every=5",
            "--checkpoint-every is '5', but wants a number of steps, epochs, s, m or h.\n"
            "  Write e.g. 500steps, 1epoch or 5m.",
        ),
        ("checkpoint.folder=", "--checkpoint is empty, but wants a path.\n  Write e.g. runs/a, or leave it out."),
        (
            "worker.thread=2",
            "--set: option 'worker.thread' is not known.\n  Did you mean 'worker.threads'?",
        ),
        ("shares.every=0", "--set shares.every is '0', but must be at least 1.\n  Leave it out for the default."),
        ("worker.threads=0", "--set worker.threads is '0', but must be at least 1.\n  Leave it out for the default."),
        (
            "buckets.bytes_max=0B",
            "--set buckets.bytes_max is '0B', but must be at least 1.\n  Leave it out for the default.",
        ),
        *(
            (
                f"worker.threads={value}",
                f"--set worker.threads is '{value}', but wants a whole number.\n  Write e.g. 2.",
            )
            for value in ("-1", "2.5", "many", "²")
        ),
        ("reduce.collective=rong", "collective 'rong' is not known.\n  Did you mean 'ring'?"),
        ("writes.trace=a", "--set: option 'writes.trace' is not known.\n  Did you mean 'write.trace'?"),
        ("reduce.place=devise", "--set reduce.place is 'devise', but wants a place.\n  Did you mean 'device'?"),
        ("worker.keeps_memory=1", "--set worker.keeps_memory is '1', but wants true or false.\n  Write one of them."),
        (
            "buckets.bytes_max=²",
            "--set buckets.bytes_max is '²', but wants a number with one of the units "
            'B, kB, MB, GB, KiB, MiB, GiB.\n  Write e.g. "4MiB".',
        ),
        (
            "waiting.spin_s=5",
            "--set waiting.spin_s is '5', but wants a number with one of the units s, ms, us, ns.\n"
            '  Write e.g. "30ms".',
        ),
        (
            "strategy.staleness=1, servers=2",
            "--set got 'strategy.staleness=1, servers=2', but wants one value.\n  Use --set once for each parameter.",
        ),
        (
            "strategy.staleness=1 +",
            "'set(staleness=1 +)' cannot be read: it is not written like a call.\n"
            "  Write a name, or a name with arguments: 'ssp', 'ssp(staleness=3)', 'gossip(topology=torus(2, 4))'.",
        ),
    ],
)
def test_what_cannot_be_set_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        set_options([text])
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("text", "parameters", "expected"),
    [
        ("ssp", {}, "ssp"),
        ("ssp", {"staleness": "3"}, "ssp(staleness=3)"),
        ("ssp(staleness=1)", {"staleness": "none"}, "ssp(staleness=none)"),
        ("ssp(staleness=1, servers=2)", {"staleness": "4"}, "ssp(servers=2, staleness=4)"),
        ("gossip", {"topology": "torus(2, 4)"}, "gossip(topology=torus(2, 4))"),
    ],
)
def test_parameters_are_set_in_the_text_of_a_strategy(text: str, parameters: dict[str, str], expected: str) -> None:
    got = with_parameters(text, parameters)
    assert got == expected
    assert strategy(got) == strategy(expected)


def test_a_strategy_that_cannot_be_read_is_refused_when_a_parameter_is_set() -> None:
    with pytest.raises(ConfigError, match=r"^'ssp\(' cannot be read: it is not written like a call."):
        with_parameters("ssp(", {"staleness": "3"})
