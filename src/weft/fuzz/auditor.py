"""The auditor: which invariants a strategy must keep, and whether the evidence of a run says that it did."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from weft.collectives.wrapping import Wrapped
from weft.core.names import CENTRE
from weft.fuzz.checks import (
    averages,
    conservation,
    equality,
    fencing,
    lineage,
    liveness,
    mixing,
    once,
    portions,
    quorums,
    residuals,
    shares,
    staleness,
)
from weft.fuzz.checks.averages import Outer
from weft.fuzz.evidence import Evidence, Violation

Check = Callable[[Evidence], Iterator[Violation]]

OF_ALL: tuple[Check, ...] = (
    liveness.ends,
    fencing.hears_members_only,
    once.is_finite,
)

OF_EXACT: tuple[Check, ...] = (fencing.takes_nothing_from_the_fenced,)
"""Of all whose ledger can be read: no codec, or one that says numbers as they are."""


def _of_servers(recipe: Any) -> list[Check]:
    """A parameter server: bulk-synchronous, stale or asynchronous."""
    checks: list[Check] = [once.servers_apply_once, equality.copies_are_versions]
    if recipe.staleness is not None:
        checks.append(partial(staleness.stays_within, bound=recipe.staleness))
    if recipe.staleness != 0:
        checks.append(partial(shares.follow_from_whole_steps, is_damped=recipe.late == "damp"))
    else:
        checks += [once.servers_apply_means, once.servers_count_alike, equality.replicas_are_equal]
    return checks


def _of_downpour(recipe: Any) -> list[Check]:
    return [
        once.servers_apply_once,
        partial(equality.copies_are_versions, period=recipe.fetch),
        partial(conservation.accrued_is_sent_once, slot="downpour.accrued", kind="push"),
    ]


def _of_gossip(recipe: Any) -> list[Check]:
    """By samples, where all hear all, parameters are not conserved but equal."""
    is_applied_first = recipe.order == "step_first"

    def conserves(evidence: Evidence) -> Iterator[Violation]:
        graph, num_workers = evidence.world.graph, evidence.world.num_workers
        assert graph is not None
        if is_applied_first and graph.edges_per_step == num_workers * (num_workers - 1):
            return
        yield from mixing.moves_by_what_left(evidence, is_applied_first)
        yield from mixing.rounds_are_balanced(evidence)
        if graph.is_undirected:
            yield from mixing.pairs_take_alike(evidence)

    return [conservation.ground_is_kept, conserves]


def _of_gossip_grad(recipe: Any) -> list[Check]:
    return [
        conservation.ground_is_kept,
        partial(mixing.moves_by_what_left, is_applied_first=True),
        mixing.rounds_are_balanced,
    ]


def _of_averages(recipe: Any, outer: Outer | None = None) -> list[Check]:
    """Replicas are equal when they have been averaged, by samples, and then have what an outer rule makes of that."""
    return [
        conservation.ground_is_kept,
        partial(equality.replicas_are_equal, period=recipe.period),
        partial(averages.rounds_count_by_samples, period=recipe.period, outer=outer),
    ]


def _of_diloco(recipe: Any) -> list[Check]:
    return _of_averages(recipe, Outer(recipe.lr, recipe.momentum, recipe.outer == "nesterov"))


def _of_bmuf(recipe: Any) -> list[Check]:
    """A block counts in the long run as much as all workers one after another, unless told otherwise."""

    def filters(evidence: Evidence) -> Iterator[Violation]:
        usual = 1.0 - 1.0 / evidence.world.num_workers
        momentum = usual if recipe.block_momentum is None else recipe.block_momentum
        outer = Outer(recipe.block_lr, momentum, recipe.nesterov)
        yield from averages.rounds_count_by_samples(evidence, recipe.period, outer)

    return [*_of_averages(recipe)[:2], filters]


def _of_slowmo(recipe: Any) -> list[Check]:
    return _of_averages(recipe, Outer(recipe.alpha, recipe.beta))


def _of_easgd(recipe: Any) -> list[Check]:
    alike = [partial(equality.slot_is_alike, slot=CENTRE)] if recipe.mode == "sync" else []
    return [conservation.ground_is_kept, conservation.elastic_total_is_conserved, *alike]


OF_STRATEGIES: dict[str, Callable[[Any], list[Check]]] = {
    "allreduce": lambda recipe: [
        once.workers_apply_once,
        once.workers_apply_means,
        staleness.stays_in_step,
        equality.replicas_are_equal,
    ],
    "ps": _of_servers,
    "ssp": _of_servers,
    "asgd": _of_servers,
    "dc_asgd": _of_servers,
    "quorum": lambda recipe: [
        once.servers_apply_once,
        partial(once.servers_apply_means, may_be_less=True),
        once.servers_count_alike,
        equality.copies_are_versions,
        partial(quorums.are_on_time, num_needed=recipe.num_needed, may_carry=recipe.late == "carry"),
    ],
    "downpour": _of_downpour,
    "sandblaster": lambda recipe: [
        once.servers_apply_once,
        once.servers_apply_means,
        equality.copies_are_versions,
        portions.are_counted_once,
    ],
    "gossip": _of_gossip,
    "async_gossip": lambda recipe: [
        conservation.ground_is_kept,
        partial(conservation.total_is_conserved, slot="params", in_flight={"answer": -1.0}),
    ],
    "push_sum": lambda recipe: [
        conservation.ground_is_kept,
        partial(conservation.total_is_conserved, slot="push_sum.mass", in_flight={"share": 1.0}),
    ],
    "gossip_grad": _of_gossip_grad,
    "neighbours": lambda recipe: [once.workers_apply_once] if recipe.elect is None else [],
    "local_sgd": _of_averages,
    "diloco": _of_diloco,
    "bmuf": _of_bmuf,
    "slowmo": _of_slowmo,
    "easgd": _of_easgd,
    "hogwild": lambda recipe: [conservation.shared_replica_adds_up],
    "ensemble": lambda recipe: [once.workers_apply_once, once.workers_apply_their_own],
    "population": lambda recipe: [
        *([once.workers_apply_once, once.workers_apply_their_own] if recipe.method == "pso" else [lineage.is_whole]),
        partial(lineage.asks_only_the_better, by="best" if recipe.method == "pso" else "badness"),
    ],
}
"""What a strategy promises besides what all do, by its name."""

OF_CODED: tuple[Check, ...] = (residuals.are_balanced,)


def _of_coded_servers(recipe: Any) -> list[Check]:
    return [once.servers_apply_once, partial(residuals.are_applied_or_kept, may_drop=recipe.late == "reject")]


OF_WHOLE: dict[str, Callable[[Any], list[Check]]] = {
    "allreduce": lambda recipe: [once.workers_apply_once, residuals.are_applied_or_kept],
    "ps": _of_coded_servers,
    "ssp": _of_coded_servers,
    "asgd": _of_coded_servers,
    "dc_asgd": _of_coded_servers,
    # a gradient that is late when the last step closes is dropped, though others are carried
    "quorum": lambda recipe: [once.servers_apply_once, partial(residuals.are_applied_or_kept, may_drop=True)],
    "downpour": lambda recipe: [
        once.servers_apply_once,
        partial(residuals.are_applied_or_kept, accrued="downpour.accrued"),
    ],
    "neighbours": lambda recipe: [once.workers_apply_once] if recipe.elect is None else [],
    "diloco": lambda recipe: [conservation.ground_is_kept],
    "bmuf": lambda recipe: [conservation.ground_is_kept],
    "slowmo": lambda recipe: [conservation.ground_is_kept],
}
"""What a strategy promises when a codec says numbers as they are, now or later."""


def _of_codec(evidence: Evidence, recipe: Any) -> list[Check]:
    """Answers are differences, and weights say nothing of what was left out; what is in step stays in step."""
    checks = list(OF_CODED)
    if recipe.keeps_replicas_equal:
        checks.append(staleness.stays_in_step)
    if recipe.reduces:
        checks.append(partial(equality.replicas_are_equal, period=getattr(recipe, "period", 1)))
    if getattr(recipe, "staleness", None) is not None:
        checks.append(partial(staleness.stays_within, bound=recipe.staleness))
    if evidence.is_exact:
        checks += OF_WHOLE[evidence.name](recipe)
    return checks


def audit(evidence: Evidence) -> list[Violation]:
    """Everything that the evidence of a run says against it; after an error only what can still be judged."""
    return [violation for check in _checks(evidence) for violation in _made(check, evidence)]


def _checks(evidence: Evidence) -> Iterator[Check]:
    yield from OF_ALL + OF_EXACT if evidence.is_exact else OF_ALL
    if evidence.error is not None:
        return
    recipe = evidence.recipe
    while isinstance(recipe, Wrapped):
        recipe = recipe.inner
    if evidence.scenario.compress is not None:
        yield from _of_codec(evidence, recipe)
    else:
        yield from OF_STRATEGIES.get(evidence.name, lambda recipe: [])(recipe)


def _made(check: Check, evidence: Evidence) -> Iterator[Violation]:
    """What a check finds; one that raises is a finding of its own, and the others are made all the same."""
    try:
        yield from check(evidence)
    except Exception as error:
        yield Violation.of_auditor(error)
