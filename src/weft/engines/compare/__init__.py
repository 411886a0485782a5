"""Comparisons: which way of training wins, in runs that are kept and can go on."""
