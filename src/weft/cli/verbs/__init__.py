"""The verbs of the `weft` command, a file each."""
