"""`weft doctor`: checks of this machine, and of the hosts of a cluster."""
