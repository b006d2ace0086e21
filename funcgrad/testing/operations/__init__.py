"""Properties that operations promise by their declaration, tried at their samples.

One property is one sentence, with a check of it and where to look if it does not hold. The files
are families of them; ``conformance`` has them all, and ``check_primitive``.
"""

from funcgrad.testing.operations.conformance import PROPERTIES as PROPERTIES
from funcgrad.testing.operations.conformance import check_primitive as check_primitive
