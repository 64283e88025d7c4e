"""The project's own commands, run as ``python -m tools.NAME``; the Makefile calls them."""
