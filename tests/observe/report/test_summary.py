"""The head of a report."""

from support.ui.comparisons import among, comparison, measured, setup

from weft.observe.records.comparison import Contender, Target
from weft.observe.report.figures import standings
from weft.observe.report.palette import looks
from weft.observe.report.summary import cells, excuse, facts, facts_section, headings, race_section, table_section


def test_what_was_compared_is_said_in_words() -> None:
    assert facts(setup(2, Target("accuracy", 0.97))) == [
        ("script", "train.py --epochs 10"),
        ("workers", "4"),
        ("slow workers", "worker 0 takes 4 times as long"),
        ("network", "the machine's own, nothing was slowed down"),
        ("target", "accuracy=0.97"),
        ("seeds", "0, 1"),
        ("runs", "real, on this machine"),
        ("machine", "cpu AMD EPYC 7B13, cores 2, memory 8.0 GB, python 3.11.2, torch 2.13.0"),
        ("compress", "none"),
        ("lr-scaling", "linear"),
    ]
    simulated = dict(facts(setup(1, None, "edge")))
    assert simulated["runs"] == "simulated, on the cluster 'edge'"
    assert simulated["seeds"] == "0 (one seed has no spread)"
    assert simulated["target"] == "none: times are those of whole runs"


def test_text_of_users_is_escaped() -> None:
    asked = setup(1, None)
    asked.arguments.append("<script>alert(1)</script>")
    assert "<script>" not in facts_section(asked)
    assert "&lt;script&gt;" in facts_section(asked)


def test_a_row_says_all_that_is_known_and_what_is_not() -> None:
    runs = [measured(2.0, 0.975, waiting=0.25, sent=3_000_000), measured(4.0, 0.985, waiting=0.25, sent=3_000_000)]
    asked = among(Contender("ssp", runs=runs), Contender("ddp", True, [measured(6.0), measured(6.0)]))
    table = standings(asked)
    assert headings(table, asked) == [
        "contender",
        "time to accuracy=0.97",
        "speed-up over ddp",
        "samples/s",
        "final accuracy",
        "bytes sent per worker",
        "time waiting",
    ]
    ssp, ddp = table.rows
    assert cells(ssp, table) == [
        ("3.0 s", "2.0 s to 4.0 s"),
        ("2.00", ""),
        ("100", ""),
        ("0.9800", "0.9750 to 0.9850"),
        ("3.0 MB", ""),
        ("25 %", ""),
    ]
    assert cells(ddp, table)[-2:] == [("not known", ""), ("not known", "")]


def test_who_did_not_get_there_has_no_time() -> None:
    asked = among(Contender("a", runs=[measured(None, None), measured(2.0, None)]))
    table = standings(asked)
    assert cells(table.rows[0], table)[0] == ("not reached", "1 of 2 seeds did")
    assert cells(table.rows[0], table)[3] == ("diverged", "")
    assert headings(table, asked)[2] == "speed-up"
    assert headings(standings(among(target=None)), among(target=None))[4] == "final number"


def test_seeds_that_diverged_are_counted_and_win_nothing() -> None:
    runs = [measured(None, 0.975), measured(None, None), measured(None, None)]
    asked = among(Contender("a", runs=runs), Contender("b", runs=[measured(None)] * 3), target=None)
    table = standings(asked)
    assert [row.label for row in table.rows] == ["b", "a"]
    said = cells(table.rows[1], table)
    assert (said[0], said[3]) == (("diverged", "2 of 3 seeds"), ("0.9750", "2 of 3 seeds diverged"))
    drawn = race_section(table, asked, looks(asked.contenders))
    assert drawn is not None
    assert "Not here, because not every seed ended well: a." in drawn


def test_a_tie_has_no_winner_in_the_table() -> None:
    asked = among(Contender("a", runs=[measured(1.0)]), Contender("b", runs=[measured(1.1)]))
    assert 'class="won"' not in table_section(standings(asked), asked)


def test_a_number_that_nobody_reported_is_not_known() -> None:
    quiet = measured(None)
    quiet.final.clear()
    table = standings(among(Contender("a", runs=[quiet]), target=None))
    assert cells(table.rows[0], table)[3] == ("not known", "")


def test_those_without_figures_are_excused_in_the_table() -> None:
    asked = among(Contender("a", error="NodeLost: <b>\nmore"), Contender("b"), Contender("c", runs=[measured(1.0)]))
    table = standings(asked)
    assert [excuse(row) for row in table.rows] == [None, "has not run yet", "failed: NodeLost: <b>"]
    page = table_section(table, asked)
    assert "failed: NodeLost: &lt;b&gt;</td>" in page
    assert "more" not in page
    assert page.count('class="won"') == 1


def test_the_race_is_only_among_those_that_arrived() -> None:
    asked = comparison()
    drawn = race_section(standings(asked), asked, looks(asked.contenders))
    assert drawn is not None
    assert "Not here, because the target was not reached with every seed: local_sgd(every=8)." in drawn
    assert race_section(standings(among()), among(), {}) is None
    alone = comparison(seeds=1, target=None)
    drawn = race_section(standings(alone), alone, looks(alone.contenders))
    assert drawn is not None
    assert "Time for all samples" in drawn
    assert "with one seed nobody knows" in drawn
