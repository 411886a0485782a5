"""One participant of `weft doctor --cluster`: a process that torchrun or srun has started."""

from collections.abc import Mapping
from pathlib import Path

from weft.config.extras import check_extra
from weft.core.errors import ConfigError
from weft.engines.diagnose.cluster.run import Checkup, probe
from weft.engines.hosts.interfaces import VARIABLE, own_address
from weft.engines.hosts.launch_env import placement
from weft.engines.real.secret import WRITE_ONE, read_secret

HOW = "torchrun --nnodes 4 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint HOST:29400 -m weft doctor --cluster"


def take_part(environ: Mapping[str, str], script: Path | None) -> Checkup | None:
    """Take part in a check-up, with the placement that `environ` gives; rank 0 gets the result, the others None."""
    where = placement(environ)
    if where is None:
        raise ConfigError(
            f"a cluster is examined from all of its hosts at once, but this process is alone.\n  On every host: {HOW}"
        )
    for extra in ("torch", "tls"):
        check_extra(extra, "weft doctor --cluster")
    secret = read_secret(environ)
    if secret is None:
        raise ConfigError(f"hosts prove by a secret that they belong together, and there is none.\n  {WRITE_ONE}")
    address = own_address(environ.get(VARIABLE), where.host, where.port)
    from weft.adapters.torch.rendezvous import TorchRendezvous  # imports torch

    rendezvous = TorchRendezvous.at(where.host, where.port, f"{where.run}/doctor", is_host=where.hosts_store)
    return probe(where.rank, where.num_workers, rendezvous, secret, address, script=script)
