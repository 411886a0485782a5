"""weft doctor --cluster: every pair of hosts, on the screen and as a cluster file."""

from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from weft.cli.show.files import write_or_show
from weft.cli.show.findings import show_findings
from weft.cli.show.screen import screen
from weft.config.clusterfile import cluster_toml
from weft.engines.diagnose.cluster.cluster_file import measured_cluster
from weft.engines.diagnose.cluster.findings import findings, latencies_s, pairs, rates, trouble
from weft.engines.diagnose.cluster.run import Checkup
from weft.observe.records.quantities import human_rate, human_seconds

ROWS_MAX = 40


def show_checkup(checkup: Checkup, out: Path | None, workers_per_host: int | None) -> None:
    """The table of pairs, the findings and the file; ends with 1 if anything is bad."""
    if len(checkup.hosts) > 1:
        screen.print(_table(checkup))
    found = findings(checkup)
    show_findings(found)
    is_bad = any(finding.verdict == "bad" for finding in found)
    if is_bad:
        bad = ", ".join(finding.name for finding in found if finding.verdict == "bad")
        screen.print(f"Training across these hosts will not work before this is fixed: {bad}.")
    else:
        screen.print(f"These hosts can train together. ({checkup.seconds:.1f} s)")
    if out is not None and rates(checkup):
        cluster = measured_cluster(checkup, workers_per_host)
        if write_or_show("--out", out, cluster_toml(cluster)):
            screen.print(
                f"The cluster is in {out}. What steps cost is not: weft calibrate SCRIPT --cluster {out} -o {out}\n"
                f"Next: weft simulate SCRIPT --cluster {out}",
                soft_wrap=True,
            )
    if is_bad:
        raise typer.Exit(1)


def _table(checkup: Checkup) -> Table:
    table = Table(title=f"{len(checkup.hosts)} hosts, every pair", title_justify="left")
    for name in ("from", "to", "at", "one way", "there", "back", "both ways", "clock"):
        table.add_column(name, justify="left" if name in ("from", "to", "at") else "right")
    speeds, together, delays = rates(checkup), rates(checkup, both_ways=True), latencies_s(checkup)
    every = pairs(checkup)
    # those in trouble are never left out
    chosen = sorted(every, key=lambda pair: trouble(checkup, *pair) is None)[:ROWS_MAX]
    for caller, answerer in sorted(chosen):
        ends = checkup.hosts[caller][0], checkup.hosts[answerer][0]
        seen, failed = checkup.seen(caller, answerer), trouble(checkup, caller, answerer)
        where = f"{ends[1].address}:{ends[1].port}" + (f" ({ends[1].interface})" if ends[1].interface else "")
        skew = None if seen is None else seen.skew_s
        figures = (
            human_seconds(delays[caller, answerer]) if (caller, answerer) in delays else "-",
            human_rate(speeds[caller, answerer]) if (caller, answerer) in speeds else "-",
            human_rate(speeds[answerer, caller]) if (answerer, caller) in speeds else "-",
            human_rate(min(together[caller, answerer], together[answerer, caller]))
            if {(caller, answerer), (answerer, caller)} <= together.keys()
            else "-",
            "-" if skew is None else f"{'+' if skew >= 0 else '-'}{human_seconds(abs(skew))}",
        )
        told = (ends[0].host, ends[1].host, where, *(figures if failed is None else (failed[0], "", "", "", "")))
        table.add_row(*map(Text, told))
    if len(every) > ROWS_MAX:
        table.caption = f"{len(every) - ROWS_MAX} more pairs are not shown."
    return table
