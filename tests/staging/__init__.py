"""The tests of ``jit`` and what it stages."""
