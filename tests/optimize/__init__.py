"""Tests of the solvers that compile, batch and differentiate."""
