"""Parts of the site that are made from the package, and from what is installed beside it."""
