"""A function as a script: what `weft.run(function)` sends to the workers."""
