"""--explain: how a run will be done, in words and a small table."""

from weft.config.compression import HOSTS_FIRST, IN_WORDS
from weft.config.registry import in_words
from weft.core.names import Result
from weft.engines.explanation import CodecExplanation, Explanation
from weft.observe.records.quantities import human_bytes, human_seconds

RESULTS = {
    Result.REPLICA: "worker 0's model: all workers' are equal",
    Result.MEAN: "the mean of all workers' models",
    Result.SERVERS: "the model that the servers hold",
    Result.CENTRE: "the centre that all workers keep alike",
    Result.BEST: "the model of the worker with the best score",
    Result.ENSEMBLE: "all workers' models, whose predictions are averaged",
}
NAME_WIDTH = 12


def explanation_lines(told: Explanation) -> list[str]:
    """What is about to happen, line by line."""
    lines = [
        "How this will run:",
        _line("strategy", f"{told.strategy}: {told.method}"),
        _line("workers", f"{told.num_workers}, {told.place}; {_pace(told)}"),
        _line("servers", _servers(told)),
    ]
    if told.num_partners is not None:
        lines.append(_line("topology", f"each worker talks to {_span(*told.num_partners)} others"))
    lines.append(_line("model", _model(told)))
    if told.num_workers > 1:
        if told.coding is not None:
            lines += _coding(told, told.coding)
        lines += _reductions(told)
    lines.append(_line("result", RESULTS[told.result]))
    return lines


def _line(name: str, text: str) -> str:
    return f"  {name:{NAME_WIDTH}}{text}"


def _pace(told: Explanation) -> str:
    if told.num_workers == 1:
        return "nobody to talk to"
    return "they keep step with each other" if told.keeps_step else "none waits for another"


def _servers(told: Explanation) -> str:
    if told.shares_replica:
        return "none: workers write one model that they share"
    if not told.servers:
        return "none: workers talk to each other" if told.num_workers > 1 else "none"
    seats = ", ".join(f"server {server} with worker {worker}" for server, worker in enumerate(told.servers))
    return f"{len(told.servers)}, in the processes of workers: {seats}"


def _span(fewest: int, most: int) -> str:
    return str(most) if fewest == most else f"{fewest} to {most}"


def _model(told: Explanation) -> str:
    num_buckets = len(told.bucket_bytes)
    size = human_bytes(sum(told.bucket_bytes))
    if num_buckets == 1:
        return f"{size} in one bucket"
    return f"{size} in {num_buckets} buckets of up to {human_bytes(max(told.bucket_bytes))}, sent one by one"


def _coding(told: Explanation, coding: CodecExplanation) -> list[str]:
    dense = sum(told.bucket_bytes)
    sizes = f"{human_bytes(dense)} become {human_bytes(coding.num_bytes)}, {dense / coding.num_bytes:.1f} times fewer"
    lines = [_line("codec", f"{coding.codec}: {sizes}")]
    if coding.scheme is None:
        return lines
    if coding.sums_hosts:
        lines.append(_line("", HOSTS_FIRST))
    lines.append(_line("", f"{coding.scheme}: {IN_WORDS[coding.scheme]}; the cheapest by formula:"))
    for name, seconds in sorted(coding.prices_s.items(), key=lambda entry: entry[1]):
        chosen = "  <- this one" if name == coding.scheme else ""
        lines.append(_line("", f"  {name:20}{human_seconds(seconds):>10}{chosen}"))
    return lines


def _reductions(told: Explanation) -> list[str]:
    if not told.reduces:
        return [_line("all-reduce", "none: this strategy never sums over all workers")]
    assumed = f"{human_seconds(told.link.latency_s)} a message and {human_bytes(told.link.bandwidth_bytes_per_s)}/s"
    if told.collective is None:
        how, others = told.native, "in messages it would take, by formula"
    else:
        is_least = told.prices_s[told.collective] == min(told.prices_s.values())
        how = f"{told.collective}: {in_words(told.collective)}"
        others = "the cheapest by formula" if is_least else f"{told.why or 'as asked for'}; by formula"
    if told.coding is not None:
        how = f"of what is not coded, {how}"
    lines = [_line("all-reduce", how), _line("", f"{others}, with {assumed}:")]
    for name, seconds in sorted(told.prices_s.items(), key=lambda entry: entry[1]):
        chosen = "  <- this one" if name == told.collective else ""
        lines.append(_line("", f"  {name:20}{human_seconds(seconds):>10}{chosen}"))
    return lines
