"""Whatever is passed to any public function: a right result, or an error in words that users know."""
