"""What runs leave in files: JSON lines, TensorBoard's events, traces."""
