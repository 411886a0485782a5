"""Real runs on the screen when they are over."""

from typing import Any

import pytest

from weft.cli.show import runs as module
from weft.cli.show.runs import show_runs


def run(strategy: str = "ssp(staleness=3)", **told: Any) -> dict[str, Any]:
    return {
        "strategy": strategy,
        "transport": "shm",
        "hosts": 1,
        "bytes_between_hosts": None,
        "refused": 0,
        "network": None,
        "workers": 2,
        "wall_s": 12.4,
        "steps": 450,
        "samples": 14370.0,
        "samples_per_s": 1158.87,
        "bytes_sent": 3_100_000,
        "staleness_mean": 0.5,
        "staleness_max": 3.0,
        "waiting_fraction": 0.034,
        "copies": 7,
        "coding": None,
        "not_finite": [0, 0],
        "final": {"loss": 0.31, "accuracy": 0.9472},
        "not_saved": [],
        "losses": [],
        "samples_unused": 0,
        "blame": [],
        "blamed": [],
        "per_worker": [worker(0), worker(1, steps=440, samples_per_s=567.0)],
        **told,
    }


def worker(rank: int, **told: Any) -> dict[str, Any]:
    return {
        "rank": rank,
        "steps": 450,
        "samples": 7200.0,
        "samples_per_s": 591.87,
        "waiting_fraction": 0.07,
        "staleness_mean": 0.25,
        "bytes_sent": 1_550_000,
        "pid": 4711 + rank,
        "device": None,
        **told,
    }


def shown(
    rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int = 80
) -> str:
    monkeypatch.setattr(module.screen, "width", width)
    show_runs(rows)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    return out


def cells(out: str) -> list[list[str]]:
    rows = [line for line in out.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]


def test_one_run_shows_its_workers_what_it_learned_and_the_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shown([run()], capsys, monkeypatch)
    assert "ssp(staleness=3), 2 workers over shm" in out
    assert cells(out) == [
        ["0", "450", "7,200", "592", "1.6 MB", "7 %", "0.2", "4711"],
        ["1", "440", "7,200", "567", "1.6 MB", "7 %", "0.2", "4712"],
    ]
    assert " ".join(out.split("┘")[1].split()) == (
        "loss 0.3100, accuracy 0.9472 In all: 14,370 samples in 12.4 s, 1,159 samples/s, 3.1 MB sent, waiting 3 %, "
        "staleness 0.5 (at most 3), 7 copies."
    )


def test_a_run_that_reported_nothing_and_one_that_diverged_say_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = [worker(0)]
    assert "┘\nIn all: " in shown([run(final={}, workers=1, per_worker=one)], capsys, monkeypatch)
    assert "\nloss diverged\n" in shown([run(final={"loss": None})], capsys, monkeypatch)


def test_several_runs_are_compared_in_one_table_where_it_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [run(), run("gossip", wall_s=6.2, samples_per_s=2317.0, final={"accuracy": 0.96})]
    out = shown(rows, capsys, monkeypatch, 140)
    assert cells(out) == [
        ["ssp(staleness=3)", "12.4 s", "1,159", "0.3100", "0.9472", "3.1 MB", "3 %", "0.5 / 3", "7"],
        ["gossip", "6.2 s", "2,317", "", "0.9600", "3.1 MB", "3 %", "0.5 / 3", "7"],
    ]
    assert " ".join(out.split("┘")[1].split()) == (
        "All trained on the same samples. Fastest: gossip, 6.2 s; slowest: ssp(staleness=3), 12.4 s "
        "(2.0 times as long). Most accurate: gossip, 0.9600."
    )


def test_a_narrow_screen_compares_in_two_tables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shown([run(), run("gossip")], capsys, monkeypatch, 80)
    assert cells(out)[::2] == [
        ["ssp(staleness=3)", "12.4 s", "1,159", "3.1 MB", "3 %"],
        ["ssp(staleness=3)", "0.3100", "0.9472", "0.5 / 3", "7"],
    ]


def test_a_long_strategy_gives_way_to_the_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shown([run(), run("gossip(topology=torus(2, 4), order=step_first)")], capsys, monkeypatch, 80)
    assert "…" not in out
    assert [row[0] for row in cells(out)][1:3] == ["gossip(topology=torus(2, 4),", "order=step_first)"]


def test_runs_of_one_strategy_are_told_apart_by_what_differs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shown([run("ps"), run("ps", transport="tcp")], capsys, monkeypatch, 140)
    assert [row[0] for row in cells(out)] == ["ps, shm", "ps, tcp"]
    out = shown([run("ps"), run("ps", transport="tcp", workers=1)], capsys, monkeypatch, 140)
    assert [row[0] for row in cells(out)] == ["ps, shm, 2 workers", "ps, tcp, 1 worker"]


def test_what_codecs_did_is_said_and_whose_gradients_were_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    coding = {"bytes_before": 8_000_000, "bytes_after": 250_000, "encode_s": 0.5, "decode_s": 0.25}
    coding |= {"residual_norm": 1.5, "num_not_finite": 4}
    show_runs([run(coding=coding, not_finite=[0, 4])])
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "Coded: 8.0 MB became 250.0 kB, 32.0 times fewer; encoding took 500.0 ms, decoding 250.0 ms; norm of what is "
        "left for later: 1.5. Gradients that were not finite were left out: 4 steps of worker 1." in told
    )
    show_runs([run("allreduce + onebit", coding=coding, not_finite=[0, 4]), run()])
    told = " ".join(capsys.readouterr().out.split())
    assert "allreduce + onebit: Coded: 8.0 MB became" in told
    assert "allreduce + onebit: Gradients that were not finite were left out: 4 steps of worker 1." in told


def test_who_was_slow_is_said_once_with_the_last_figures(capsys: pytest.CaptureFixture[str]) -> None:
    blamed = [{"worker": worker, "cause": "compute"} for worker in (0, 1, 0)]
    slow = run("ps", blamed=blamed, blame=["worker 0 is slow: 9 ms", "worker 1 is slow", "worker 0 is slow: 8 ms"])
    show_runs([slow])
    assert capsys.readouterr().out.splitlines()[-2:] == ["worker 0 is slow: 8 ms", "worker 1 is slow"]
    show_runs([run("ssp"), slow])
    assert capsys.readouterr().out.splitlines()[-2:] == ["ps: worker 0 is slow: 8 ms", "ps: worker 1 is slow"]


def test_models_that_are_not_saved_are_said_last_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    lossy = run("ps", not_saved=["'model' is NOT saved.", "'other' is NOT saved.", "'model' is NOT saved."])
    show_runs([lossy])
    assert capsys.readouterr().out.splitlines()[-2:] == ["'model' is NOT saved. (2 times)", "'other' is NOT saved."]
    show_runs([run("ssp"), lossy])
    assert capsys.readouterr().out.splitlines()[-1] == "ps: 'other' is NOT saved."


def test_who_was_lost_is_said_and_how_many_samples_were_not_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = {
        "worker": 1,
        "how": "lost",
        "cause": "killed by signal 9",
        "step": 31,
        "detected_s": 1.5,
        "replaced_s": None,
    }
    again = {**loss, "worker": 2, "replaced_s": 1.75}
    left = {**again, "worker": 3, "how": "left", "cause": "SIGTERM"}
    fewer = run("ps", losses=[loss, again, left], samples_unused=1200)
    lines = [
        "Worker 1 was lost at step 31: killed by signal 9.",
        "Worker 2 was lost at step 31: killed by signal 9. It was replaced after 0.2 s.",
        "Worker 3 left at step 31, after SIGTERM. It was replaced after 0.2 s.",
        "1,200 samples of lost workers were not used: all others had ended that epoch.",
    ]
    said = shown([fewer], capsys, monkeypatch, 120).splitlines()
    assert said[-4:] == lines
    assert "In all: at least " in "".join(said), "what they did after their last word is not known"
    assert shown([run("ssp"), fewer], capsys, monkeypatch, 120).splitlines()[-4:] == [f"ps: {line}" for line in lines]
    assert "lost" not in shown([run()], capsys, monkeypatch, 120)


def test_where_sums_with_devices_were_made_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    prices = {"host": 0.02, "device": 0.01}
    device = {"bytes_in": 2_000_000, "bytes_out": 500_000, "place": "device", "prices_s": prices}
    workers = [worker(0, device=device), worker(1), worker(2, device=device)]
    show_runs([run(per_worker=workers)])
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "Sums were made on the device; as measured, a sum of the whole model takes 20.0 ms on the host and 10.0 ms "
        "on the device. Copied: 4.0 MB to devices and 1.0 MB from them." in told
    )
    show_runs([run("allreduce", per_worker=workers), run()])
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("Sums were made") == told.count("allreduce: Sums were made") == 1


def test_hosts_what_went_between_them_and_who_was_refused_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = run("allreduce", hosts=2, bytes_between_hosts=1_200_000, refused=1234)
    out = shown([told], capsys, monkeypatch, 200)
    assert "allreduce, 2 workers on 2 hosts over shm" in out
    assert "3.1 MB sent (1.2 MB between hosts), waiting" in out
    assert out.rstrip().endswith("7 copies, 1,234 refused.")


def test_large_numbers_are_shown_whole_on_80_columns_in_as_many_tables_as_it_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = {"steps": 1_234_567, "samples": 987_654_321.0, "samples_per_s": 1_234_567.0, "pid": 4_194_303}
    out = shown([run(per_worker=[worker(0, **large), worker(1, **large)])], capsys, monkeypatch)
    for whole in ("1,234,567", "987,654,321", "4194303", "1.6 MB", "7 %"):
        assert whole in out
    assert "…" not in out
    assert "(more)" in out


def test_many_reported_numbers_are_shown_whole_on_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    final = {f"validation_{name}": 0.123456 for name in ("accuracy", "loss", "recall", "precision", "f1")}
    out = shown(
        [run(final=final), run("gossip(topology=exponential(one_peer=true))", final=final)], capsys, monkeypatch
    )
    for name in final:
        assert name in out
    assert "…" not in out
