"""Checkpoints: a folder for each, written whole or not at all, and checked before anything of it is used."""
