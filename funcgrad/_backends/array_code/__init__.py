"""Code for libraries that compute with whole arrays: index maps, formulas, folds, random words."""
