"""Other libraries that take tensors, and tracers where they compute with the array API alone."""
