"""Engines: start workers somewhere."""
