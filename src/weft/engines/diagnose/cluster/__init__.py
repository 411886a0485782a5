"""A check-up of a cluster: whether its hosts reach each other, how fast, and whether they run the same code."""
