"""Comparisons: trains one script in several ways, and keeps the runs, so that a comparison can be resumed."""
