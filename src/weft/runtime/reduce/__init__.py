"""Reduce for real: in shared memory, on devices, between hosts, by a library."""
