"""Whatever is passed to a public function: a result, or an error in words that users know."""
