"""Programs as Python source."""

__all__: list[str] = []
