"""Whatever is passed to a public function, it returns a result or raises an error for users."""
