"""The tests of what every backend promises."""
