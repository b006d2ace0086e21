"""The tests of the functions of neural networks."""
