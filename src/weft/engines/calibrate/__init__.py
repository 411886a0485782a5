"""Measures scripts, workers and codecs on this machine, for cluster files."""
