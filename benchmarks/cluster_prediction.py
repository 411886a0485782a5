"""How well the cluster file of `weft doctor --cluster` foretells the steps of an all-reduce run on the same hosts.

sudo PYTHONPATH=src:tests python benchmarks/cluster_prediction.py

Four network namespaces are the hosts, with links of 100 Mbit/s and 10 ms (--net). On them: the check-up, which writes
the file; `weft calibrate`, which adds what samples cost; a real run under torchrun (or `weft run --net` with --engine
local); and `weft simulate` with that file. Prints both step times; exit code 1 if they are more than 15 % apart.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from support.network.machines import Machines, machines
from support.network.namespaces import inside

from weft.config.cluster import Cluster, load_cluster
from weft.config.network import EmulatedNetwork, read_network
from weft.engines.real.secret import new_secret
from weft.observe.records.quantities import human_rate, human_seconds

BAR = 0.15
PORT = "29500"
CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")
WEFT = (sys.executable, "-m", "weft")
SCRIPT = Path(__file__).with_name("timed_steps.py")


def check_up(hosts: Machines, folder: Path, secret: str) -> Cluster:
    """The cluster as its hosts measure it."""
    ranks = [["env", f"RANK={rank}", *WEFT, "doctor", "--cluster", "--out", "cluster.toml"] for rank in range(4)]
    told = {"MASTER_ADDR": hosts.addresses[0], "MASTER_PORT": PORT, "WORLD_SIZE": "4", "WEFT_SECRET": secret}
    run = hosts.start(ranks, cwd=folder, **told)
    assert run.end(120.0) == [0] * 4, run.text()
    return load_cluster(str(folder / "cluster.toml"))


def under_torchrun(hosts: Machines, folder: Path, secret: str, arguments: list[str]) -> str:
    """What the workers of a real run print, one on each host."""
    run = hosts.torchrun(SCRIPT, *arguments, cwd=folder, WEFT_SECRET=secret, WEFT_STRATEGY="allreduce")
    assert run.end(600.0) == [0] * 4, run.text()
    return run.text()


def run_weft(folder: Path, *arguments: object) -> str:
    """What a command of `weft` prints."""
    ended = subprocess.run([*WEFT, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def real_step_s(text: str) -> float:
    """The mean, as the script measured it: steps that take turns at being long and short are told by nothing else."""
    found = re.search(r"step_s mean ([0-9.e-]+)", text)
    assert found is not None, text
    return float(found[1])


def foretold_step_s(folder: Path, arguments: list[str], steps: int) -> float:
    """The step that a simulation with the measured file has."""
    run_weft(folder, "calibrate", SCRIPT, "--cluster", "cluster.toml", "-o", "cluster.toml", "--", *arguments)
    how = ("-n", 4, "--strategy", "allreduce", "--steps", steps, "--cluster", "cluster.toml", "--json", "foretold.json")
    run_weft(folder, "simulate", SCRIPT, *how, "--", *arguments)
    (told,) = json.loads((folder / "foretold.json").read_text())
    return float(told["virtual_s"] / told["steps"])


def predict(network: EmulatedNetwork, args: argparse.Namespace, folder: Path) -> float:
    """How far off the simulation is, as a share of the real step; prints both."""
    arguments, secret = ["--hidden", str(args.hidden), "--steps", str(args.steps)], new_secret().hex()
    with machines(4, network) as hosts:
        for namespace in hosts.namespaces if args.congestion else ():
            inside(namespace, lambda: CONGESTION.write_text(args.congestion))
        cluster = check_up(hosts, folder, secret)
        print(f"measured: {human_rate(cluster.between[1])} both ways, {human_seconds(cluster.between[0])} one way")
        texts = []
        if args.engine == "torchrun":
            texts = [under_torchrun(hosts, folder, secret, arguments) for _ in range(args.runs)]
    foretold_s = foretold_step_s(folder, arguments, args.steps)
    if args.engine == "local":
        how = ("-n", 4, "--net", args.net, "--strategy", "allreduce", "--steps", args.steps)
        texts = [run_weft(folder, "run", SCRIPT, *how, "--", *arguments) for _ in range(args.runs)]
    steps_s = [real_step_s(text) for text in texts]
    off = foretold_s / median(steps_s) - 1
    print(f"real step: {', '.join(map(human_seconds, steps_s))}; foretold: {human_seconds(foretold_s)} ({off:+.1%})")
    return off


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="100mbit,10ms")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--congestion", help="how TCP finds its rate, such as reno; the system's own if left out")
    parser.add_argument("--engine", choices=("torchrun", "local"), default="torchrun")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        off = predict(read_network(args.net), args, Path(folder))
    sys.exit(abs(off) > BAR)


if __name__ == "__main__":
    main()
