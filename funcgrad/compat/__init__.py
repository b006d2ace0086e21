"""The interfaces of other libraries: code written for them runs on funcgrad.

Import one by its name: ``import funcgrad.compat.autograd``. ``import funcgrad`` does not load them.
"""
