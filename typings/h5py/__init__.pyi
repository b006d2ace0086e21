from typing import Any

File: Any
