"""The tests of the optimizers."""
