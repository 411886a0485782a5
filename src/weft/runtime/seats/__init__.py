"""Seats: the objects that a script's calls reach, for workers that train together, alone, or under a baseline."""
