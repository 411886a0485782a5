"""The folder that is uploaded to a cluster (Ray's working_dir): what is excluded, and what errors of ray.init mean."""

from pathlib import Path

EXCLUDED = (".git", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache")
LARGEST = 3


def explained(error: Exception, address: str | None, folder: str) -> str:
    """What an error of ray.init means to the user of `weft run`, and what to do."""
    text, behind = str(error), f"{error.__cause__} {error.__context__}"
    if "exceeds the maximum size" in text:
        names = ", ".join(f"'{name}' ({size / 2**20:.0f} MiB)" for name, size in largest(Path(folder)))
        return (
            f"the folder '{folder}' is too large to be shipped to the cluster: {text.partition('. ')[0]}.\n"
            f"  Its largest parts are {names}: name those that the script does not need in a file .rayignore there, "
            "and put data where every node finds it."
        )
    if any("InvalidAuthToken" in each or "auth_token" in each for each in (text, behind)):
        return (
            f"the Ray cluster at {address} wants a token that it was not given.\n"
            "  Set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to what the cluster was started with."
        )
    if address is None:
        return f"Ray could not be started on this machine: {text}"
    return (
        f"the Ray cluster at {address} cannot be used from here: {text}\n"
        "  Run this on one of its nodes: one without work is made by ray start --address ADDRESS --num-cpus 0."
    )


def largest(folder: Path) -> list[tuple[str, int]]:
    """The names and bytes of the largest entries of `folder`, LARGEST of them at most."""
    sizes = {}
    for entry in folder.iterdir():
        if entry.name not in EXCLUDED:
            files = entry.rglob("*") if entry.is_dir() else [entry]
            sizes[entry.name] = sum(file.stat().st_size for file in files if file.is_file())
    return sorted(sizes.items(), key=lambda item: -item[1])[:LARGEST]
