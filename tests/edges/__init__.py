"""The tests at edges: kinks, ties, zeros, infinities, ends of domains, and scales."""
