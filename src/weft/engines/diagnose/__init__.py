"""What `weft doctor` finds out: of this machine, and of the hosts of a cluster."""
