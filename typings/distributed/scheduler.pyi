from typing import Any

class KilledWorker(Exception):
    task: Any
    last_worker: Any
