"""weft replay: the story of one seed."""

from dataclasses import replace
from typing import Annotated

import typer

from weft.cli.show.screen import screen
from weft.config.registry import STRATEGIES
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError
from weft.fuzz.auditor import audit
from weft.fuzz.evidence import AUDITOR
from weft.fuzz.run import run
from weft.fuzz.scenario import Scenario, draw
from weft.fuzz.stories import opening, tell


def replay(
    seed: Annotated[int, typer.Argument(help="The seed, as weft fuzz names it.")],
    until: Annotated[
        float | None, typer.Option("--until", help="Stop telling at this virtual time, in seconds.")
    ] = None,
    node: Annotated[int | None, typer.Option("--node", help="Only what this node was told and answered.")] = None,
    strategy: Annotated[str | None, typer.Option("--strategy", "-s", help="As given to weft fuzz.")] = None,
    faults: Annotated[
        str | None, typer.Option("--faults", help="Only these of the seed's faults, e.g. '0,2', or 'none'.")
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Fewer steps than the seed draws.")] = None,
) -> None:
    """Tell the story of one fuzzed run: every event and every answer, then the auditor's verdict."""
    if strategy is not None:
        strategy_of(strategy)
    scenario = _changed(draw(seed, tuple(STRATEGIES) if strategy is None else (strategy,)), faults, steps)
    evidence = run(scenario)
    if node is not None and not 0 <= node < evidence.world.num_nodes:
        raise ConfigError(
            f"--node is {node}, but the nodes of this world are 0 to {evidence.world.num_nodes - 1}.\n"
            f"  Workers are 0 to {scenario.num_workers - 1}, servers follow."
        )
    for line in (*opening(scenario), *tell(evidence, until, node)):
        screen.print(line, markup=False, soft_wrap=True)
    violations = audit(evidence)
    for violation in violations:
        broken = "" if violation.invariant == AUDITOR else f"invariant {violation.invariant} is broken: "
        screen.print(f"{broken}{violation.what}", markup=False, soft_wrap=True)
    screen.print(f"{len(evidence.recording.entries)} events, trace {evidence.trace}")
    if violations:
        raise typer.Exit(1)
    screen.print("no invariant was broken")


def _changed(scenario: Scenario, faults: str | None, steps: int | None) -> Scenario:
    schedule = scenario.faults.schedule
    if faults is not None:
        kept = [] if faults == "none" else faults.split(",")
        if not all(number.isdigit() and int(number) < len(schedule) for number in kept):
            raise ConfigError(
                f"--faults is '{faults}', but seed {scenario.seed} has {len(schedule)} faults.\n"
                f"  Name some of them by their numbers, from 0 on, such as '0,2', or write 'none'."
            )
        schedule = tuple(schedule[int(number)] for number in kept)
        scenario = replace(scenario, faults=replace(scenario.faults, schedule=schedule))
    if steps is None:
        return scenario
    if not 1 <= steps <= scenario.num_steps:
        raise ConfigError(
            f"--steps is {steps}, but seed {scenario.seed} makes {scenario.num_steps}.\n"
            f"  Use a number from 1 to {scenario.num_steps}."
        )
    return replace(scenario, num_steps=steps)
