"""Right at the edges: kinks, ties, zeros, infinities, ends of domains, and scales."""
