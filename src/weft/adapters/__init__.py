"""Faces of `weft.join`: numpy arrays and torch models. A framework is imported only by its own room."""
