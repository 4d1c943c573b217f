"""Builds and serves the small models that run on a machine without a GPU."""
