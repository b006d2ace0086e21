"""Staging: functions that run as programs. See README.md in this folder."""

__all__: list[str] = []
