"""Staging: functions that run as programs. See README.md in this folder."""
