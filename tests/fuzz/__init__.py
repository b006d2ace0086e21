"""A differential fuzzer: random programs, computed in every way there is; see README.md."""
