"""A differential fuzzer: random programs, computed in every available way; see README.md."""
