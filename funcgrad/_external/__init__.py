"""Functions of other libraries as operations; the public function is ``fg.extend.foreign``."""
