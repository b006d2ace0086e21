"""Parts of the site that are generated from the package and other installed packages."""
