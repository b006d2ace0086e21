"""Forms of a program: text, JSON, graphs. See README.md in this folder."""
