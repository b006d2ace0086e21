"""Tests of other libraries with tensors, and with tracers where they use only the array API."""
