"""Real worker processes, and who starts and watches them."""
