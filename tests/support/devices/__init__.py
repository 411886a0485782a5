"""What stands in for a GPU."""
