"""``make_vjp`` and ``make_jvp`` of functions of one argument; ``vspace``; and the rules.

>>> vjp, value = make_vjp(lambda x: x * x, 3.0)
>>> vjp(1.0), value
(np.float64(6.0), 9.0)
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.compat.autograd.differential_operators import pullback_of, pushforward_of
from funcgrad.compat.autograd.extend import def_linear as def_linear
from funcgrad.compat.autograd.extend import defjvp as defjvp
from funcgrad.compat.autograd.extend import defjvp_argnum as defjvp_argnum
from funcgrad.compat.autograd.extend import defjvp_argnums as defjvp_argnums
from funcgrad.compat.autograd.extend import defvjp as defvjp
from funcgrad.compat.autograd.extend import defvjp_argnum as defvjp_argnum
from funcgrad.compat.autograd.extend import defvjp_argnums as defvjp_argnums
from funcgrad.compat.autograd.extend import primitive as primitive
from funcgrad.compat.autograd.spaces import VSpace as VSpace
from funcgrad.compat.autograd.spaces import vspace as vspace

make_vjp = pullback_of
make_jvp = pushforward_of


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
