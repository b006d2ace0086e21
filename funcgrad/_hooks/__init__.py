"""Context variables through which ``fg.debug`` sees results, and uses of random keys."""
