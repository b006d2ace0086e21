"""The primitives, one file a family. See README.md in this folder."""
