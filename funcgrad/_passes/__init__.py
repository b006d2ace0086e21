"""Passes: functions from a program to a faster one with the same results."""
