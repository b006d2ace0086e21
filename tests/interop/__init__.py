"""Bridges to other libraries and back; with the libraries themselves where they are installed."""
