"""Makes a script of a function: the file that `weft.run(function)` gives to its workers."""
