"""What strategies with parameter servers check alike."""

from weft.core.errors import ConfigError


def check_servers(strategy: str, servers: int) -> None:
    """Refuse a number of servers that cannot hold the parameters."""
    if servers < 1:
        raise ConfigError(
            f"servers is {servers}, but the parameters must live on at least 1.\n  Use '{strategy}(servers=1)'."
        )
