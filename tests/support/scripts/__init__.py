"""Training scripts, and files for them to read."""
