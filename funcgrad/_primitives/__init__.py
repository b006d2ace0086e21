"""The primitives, one file for each family. See README.md in this folder."""
