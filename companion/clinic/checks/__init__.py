"""The doctor's checks, one theme a file."""

__all__: list[str] = []
