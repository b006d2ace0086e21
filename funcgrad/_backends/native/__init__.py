"""The native backend: a program becomes machine code. See README.md in this folder."""
