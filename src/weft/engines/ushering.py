"""A seat for scripts that were not started by Weft: those that torchrun, srun or Kubernetes put somewhere."""

import os

from weft.core.seat import Seat
from weft.engines.placement import placement

STORE_S_MAX = 60.0
"""How long the store where all meet may take to be there."""


def find_seat() -> Seat | None:
    """The seat among the others of this run; None for a script that nobody has put anywhere."""
    placed = placement(os.environ)
    if placed is None:
        return None
    from weft.adapters.torch.board import TorchBoard  # torch is only there for those who have come by it
    from weft.engines.member import join_crew

    board = TorchBoard.at(placed.host, placed.port, placed.run, is_host=placed.hosts_store, timeout_s=STORE_S_MAX)
    return join_crew(placed, board, os.environ)
