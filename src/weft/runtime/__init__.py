"""Drives peers for real: one driver in each worker process, between its script and its transports."""
