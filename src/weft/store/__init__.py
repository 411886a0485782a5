"""Stores: where tensors live behind Buffer."""
