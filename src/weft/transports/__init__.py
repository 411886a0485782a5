"""Bytes between the processes of a run: shared-memory rings on a host, TCP anywhere."""
