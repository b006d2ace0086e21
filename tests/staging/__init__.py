"""The tests of ``jit`` and of staging."""
