"""Hunts for bugs in strategies: random worlds with faults, run in virtual time and audited."""
