"""What verbs are asked for on the command line, and what its texts mean."""
