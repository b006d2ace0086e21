"""What a backend promises."""
