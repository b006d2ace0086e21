"""Control flow: loops and branches as operations. See README.md in this folder."""
