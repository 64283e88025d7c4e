"""Kernels behind ``attend``: PyTorch's own, and those written here."""
