"""Devices: backends that keep their own values, and tensors of these values."""
