"""The tests of files and checkpoints."""
