"""Emulated networks (`--net`): a network namespace for each worker, and a relay that delays their packets."""
