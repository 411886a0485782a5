"""What a script's calls reach: the seats of workers that train together, alone, or under a baseline."""
