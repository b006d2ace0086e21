"""Properties that a declaration promises, checked at the samples of an operation.

A property is a sentence, its check, and advice where to look if it fails. The files have families
of properties; ``conformance`` joins them in ``check_primitive``.
"""

from funcgrad.testing.operations.conformance import PROPERTIES as PROPERTIES
from funcgrad.testing.operations.conformance import check_primitive as check_primitive
