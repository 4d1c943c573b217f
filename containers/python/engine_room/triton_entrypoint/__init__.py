"""Puts a Triton model repository together in NVIDIA's image, and serves it in the foreground."""
