"""Whose samples: how a data set is divided over workers."""
