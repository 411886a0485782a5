"""Invariants, one file for each promise: functions from the evidence of a run to what breaks it."""
