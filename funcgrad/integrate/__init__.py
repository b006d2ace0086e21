"""Ordinary differential equations: ``odeint``. See README.md in this folder."""
