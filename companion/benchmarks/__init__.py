"""What ``python -m companion.bench`` measures, how, and how it tells."""
