"""Passes: functions from a program to a better one that means the same."""
