"""Checkpoints for tests, and disks that fail."""
