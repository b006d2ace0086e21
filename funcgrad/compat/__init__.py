"""Other libraries' names for what funcgrad does: code written for them runs on funcgrad.

Import the library that is meant: ``import funcgrad.compat.autograd``. Nothing here is loaded by
``import funcgrad``.
"""
