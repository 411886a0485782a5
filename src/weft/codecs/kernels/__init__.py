"""Compiled loops over arrays. Importing one of these files loads numba: codecs do it when they are first used."""
