"""Engines: start the workers of a run on this machine, on several hosts, on Ray or in virtual time."""
