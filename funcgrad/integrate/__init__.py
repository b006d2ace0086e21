"""Integrals and ordinary differential equations, under SciPy's names.

>>> import funcgrad as fg
>>> def below(x, rate):
...     return quad(lambda t: rate * fg.numpy.exp(-rate * t), 0.0, x)[0]
>>> fg.grad(below)(0.0, 2.0)
Tensor(2.0)

The README explains how.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lazy_names import LateNames as _LateNames
from funcgrad.numpy.running import trapezoid

if TYPE_CHECKING:
    from funcgrad.integrate.adaptive_integrals import quad
    from funcgrad.integrate.double_exponential import TanhSinhResult, tanhsinh
    from funcgrad.integrate.events import Event
    from funcgrad.integrate.initial_value_problems import solve_ivp
    from funcgrad.integrate.initial_values import odeint
    from funcgrad.integrate.ivp_results import OdeResult
    from funcgrad.integrate.records import OdeSolution
    from funcgrad.integrate.sampled_integrals import (
        cumulative_simpson,
        cumulative_trapezoid,
        romb,
        simpson,
    )
    from funcgrad.integrate.several_variables import dblquad, fixed_quad, nquad
    from funcgrad.integrate.stiffness import StiffnessWarning
    from funcgrad.integrate.stochastic_equations import solve_sde

__all__ = [
    "Event",
    "OdeResult",
    "OdeSolution",
    "StiffnessWarning",
    "TanhSinhResult",
    "cumulative_simpson",
    "cumulative_trapezoid",
    "dblquad",
    "fixed_quad",
    "nquad",
    "odeint",
    "quad",
    "romb",
    "simpson",
    "solve_ivp",
    "solve_sde",
    "tanhsinh",
    "trapezoid",
]

_LATE = _LateNames(
    __name__,
    {
        "initial_values": "odeint",
        "initial_value_problems": "solve_ivp",
        "events": "Event",
        "ivp_results": "OdeResult",
        "records": "OdeSolution",
        "stiffness": "StiffnessWarning",
        "adaptive_integrals": "quad",
        "double_exponential": "TanhSinhResult tanhsinh",
        "sampled_integrals": "cumulative_simpson cumulative_trapezoid romb simpson",
        "several_variables": "dblquad fixed_quad nquad",
        "stochastic_equations": "solve_sde",
    },
)

if not TYPE_CHECKING:  # which see the names above, and report others
    __getattr__ = _LATE.load
__dir__ = __all__.copy  # completion shows the public names, without the modules
