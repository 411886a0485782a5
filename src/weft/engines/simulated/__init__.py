"""Simulated workers: a script in virtual time, in one process."""
