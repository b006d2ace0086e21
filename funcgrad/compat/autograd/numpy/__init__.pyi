from typing import Any

from numpy import *
from numpy import fft as fft
from numpy import linalg as linalg
from numpy import random as random

def make_diagonal(D: Any, offset: int = 0, axis1: int = -1, axis2: int = -2) -> Any: ...
