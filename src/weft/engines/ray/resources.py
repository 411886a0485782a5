"""The resources that each worker requests of a Ray cluster, and whether the cluster has them."""

from collections.abc import Mapping, Sequence
from math import inf

from weft.config.units import num_bytes
from weft.core.errors import ConfigError

CPU, GPU, MEMORY = "CPU", "GPU", "memory"
DEFAULT = {CPU: 1.0}
OPTION = "--set ray.resources"
EXAMPLE = f"Write e.g. {OPTION}=cpu=1,gpu=0."
Bundle = Mapping[str, float]


def read_resources(text: str | None) -> dict[str, float]:
    """Parse a text such as 'cpu=1,gpu=0.5,memory=4GiB' into Ray's resources; other names are custom resources."""
    if text is None:
        return dict(DEFAULT)
    asked = dict(DEFAULT)
    for part in text.split(","):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not name:
            raise ConfigError(f"{OPTION} got '{part}', but wants NAME=NUMBER.\n  {EXAMPLE}")
        known = {"cpu": CPU, "gpu": GPU, "memory": MEMORY}.get(name.lower(), name)
        asked[known] = _amount(known, value)
    bundle = {name: amount for name, amount in asked.items() if amount}
    if not bundle:
        raise ConfigError(f"{OPTION}={text} asks for nothing, but a worker needs a place.\n  {EXAMPLE}")
    return bundle


def _amount(name: str, value: str) -> float:
    if name == MEMORY:
        return num_bytes(value, f"{OPTION}: memory")
    try:
        amount = float(value)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < inf or (amount > 1 and amount != int(amount)):
        raise ConfigError(
            f"{OPTION} got '{name}={value}', but wants a whole number, or a part of one from 0 to 1.\n  {EXAMPLE}"
        )
    return amount


def words(bundle: Bundle) -> str:
    """`bundle` as text, in the form that --set ray.resources takes."""
    return ",".join(f"{name.lower() if name in (CPU, GPU) else name}={amount:g}" for name, amount in bundle.items())


def num_places(bundle: Bundle, nodes: Sequence[Bundle]) -> int:
    """How many workers with resources `bundle` fit on these nodes."""
    return sum(int(min(node.get(name, 0.0) / amount + 1e-9 for name, amount in bundle.items())) for node in nodes)


def lacking(num_workers: int, bundle: Bundle, nodes: Sequence[Bundle], free: Bundle, waited_s: float) -> str:
    """The message that says why workers could not be placed on a cluster's nodes, and what to do."""
    places = num_places(bundle, nodes)
    has = words({name: sum(node.get(name, 0.0) for node in nodes) for name in bundle})
    asked = f"{num_workers} workers ask for {words(bundle)} each, but"
    nodes_text = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    if places < num_workers:
        fewer = f"Use -n {places}, " if places else "Use "
        return (
            f"{asked} the Ray cluster has {has} on {nodes_text}: room for {places}.\n"
            f"  {fewer}another {OPTION}, or a larger cluster."
        )
    return (
        f"{asked} of the {has} that the Ray cluster has on {nodes_text}, "
        f"{words({name: free.get(name, 0.0) for name in bundle})} were free within {waited_s:g} s.\n"
        "  Wait until others have done, use a smaller -n, or wait longer with --set ray.patience_s=600s."
    )
