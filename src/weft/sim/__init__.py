"""Drives peers in virtual time."""
