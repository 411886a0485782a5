"""A check-up of a cluster: whether its hosts reach each other, how well, and whether they run the same."""
