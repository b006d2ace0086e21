"""Differential equations: solutions as functions. See README.md in this folder."""
