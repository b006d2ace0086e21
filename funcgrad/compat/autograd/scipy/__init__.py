"""SciPy as autograd has it: ``integrate``, ``linalg``, ``signal``, ``special``, ``stats``.

A function is SciPy's own where no argument is traced, and funcgrad's where one is. SciPy is loaded
with the first name that is used.
"""

from funcgrad.compat.autograd.scipy import integrate as integrate
from funcgrad.compat.autograd.scipy import linalg as linalg
from funcgrad.compat.autograd.scipy import signal as signal
from funcgrad.compat.autograd.scipy import special as special
from funcgrad.compat.autograd.scipy import stats as stats
