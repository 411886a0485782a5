"""`weft run` on this machine: a fork server, and the workers that it forks."""
