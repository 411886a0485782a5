"""What all runs on real workers have in common, on one host or several."""
