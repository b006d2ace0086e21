"""The XLA backend: programs as functions of JAX, compiled by XLA. See README.md in this folder."""
