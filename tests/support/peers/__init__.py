"""Peers without a driver."""
