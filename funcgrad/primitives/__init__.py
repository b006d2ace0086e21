"""The primitives, one file a family. See README.md in this folder."""

__all__: list[str] = []
