"""Only the names that the site's extensions use."""
