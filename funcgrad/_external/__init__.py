"""Functions of other libraries as operations; ``fg.extend.foreign`` is its public name."""
