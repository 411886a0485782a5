"""What a run is: the registry of names, the grammar of its strings, cluster files, settings."""
