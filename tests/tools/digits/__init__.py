"""Digits of distributions: twins in mpmath, and a search for points where derivatives lose them."""
