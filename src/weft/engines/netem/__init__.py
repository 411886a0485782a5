"""Slow networks of Weft's own making: a namespace for each worker, and a relay between them."""
