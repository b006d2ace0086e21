"""A script loads the modules that it uses, and few others. No test looks at a clock.

``python -m tests.tools.benchmarks.loading`` measures the time.
"""

from collections.abc import Mapping

import pytest

from tests.scripts import printed

SCRIPTS: Mapping[str, str] = {
    "funcgrad": "import funcgrad",
    "arrays": "import funcgrad.numpy",
    "eager": "import funcgrad.numpy as fnp; fnp.sum(fnp.sin([1.0, 2.0]) * 3.0)",
    "gradient": """
import funcgrad as fg, funcgrad.numpy as fnp
fg.grad(lambda x: fnp.sum(fnp.sin(x) * x))(2.0)
""",
    "jit": """
import funcgrad as fg, funcgrad.numpy as fnp
fg.jit(fg.grad(lambda x: fnp.sum(fnp.sin(x) * x)), backend="numpy")(2.0)
""",
    "jit without a call": """
import funcgrad as fg, funcgrad.numpy as fnp
fg.jit(fg.grad(lambda x: fnp.sum(fnp.sin(x) * x)))
""",
    "completion": "import funcgrad, funcgrad.numpy as fnp; dir(funcgrad), dir(fnp), fnp.__all__",
}

STANDARD = frozenset(
    """
    copy dataclasses heapq importlib threading zlib
    dis inspect linecache opcode token tokenize
    """.split()
)
"""Modules of the standard library that NumPy may not load. Later NumPys than 2.0 load those of the
second line, which ``dataclasses`` loads."""

STAGING = (
    *("_staging", "_backends", "_passes", "_programs", "_control", "_forms", "_programs.algebra"),
    *("_transforms.stage", "_transforms.stager", "_transforms.linearization"),
)
_WITHOUT_EQUATIONS = (
    *(place for place in STAGING if place != "_programs"),
    *("_programs.index", "_programs.program"),
)
FAMILIES = (
    *("numpy.linalg", "numpy.fft", "numpy.polynomials", "numpy.histograms", "numpy.sets"),
    *("_primitives.linear_systems", "_primitives.eigen", "_primitives.fft"),
    "_primitives.special_functions",
)
FORMS = tuple(f"_forms.{name}" for name in "carried graph json_text listing python_module".split())
OTHERS = (
    *("implicit", "integrate", "io", "nn", "optim", "random", "scipy", "testing", "extend"),
    *("compat", "_external", "interop", "parallel"),
    *("_control", *FORMS, "tensor.numpy_protocols"),
)

NOT_LOADED: Mapping[str, tuple[str, ...]] = {
    "funcgrad": ("_transforms", "numpy", *STAGING, *FAMILIES, *OTHERS),
    "arrays": ("_transforms", "numpy.reductions", *STAGING, *FAMILIES, *OTHERS),
    "eager": ("_transforms", *STAGING, *FAMILIES, *OTHERS),
    "gradient": (*_WITHOUT_EQUATIONS, *FAMILIES, *OTHERS),
    "jit": (*FAMILIES, *OTHERS),
    "jit without a call": ("_backends.native.native_backend", *FAMILIES, *OTHERS),
    "completion": ("_transforms", "numpy.reductions", *STAGING, *FAMILIES, *OTHERS),
}
"""What of funcgrad a script has no use for, with all that stands under it."""


def loaded(script: str) -> set[str]:
    """The modules that a script loads beyond those of NumPy."""
    code = "import sys, numpy\nbefore = set(sys.modules)\n{}\nprint(*set(sys.modules) - before)"
    return set(printed(code.format(script)).split())


def beneath(modules: set[str], place: str) -> set[str]:
    return {name for name in modules if f"{name}.".startswith(f"funcgrad.{place}.")}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_loads_what_it_uses(name: str) -> None:
    modules = loaded(SCRIPTS[name])
    assert {place: beneath(modules, place) for place in NOT_LOADED[name]} == {
        place: set() for place in NOT_LOADED[name]
    }
    # From 3.14 on a part of ctypes, which NumPy loads, comes with the first structure.
    modules -= {"ctypes._layout"}
    standard = {module.partition(".")[0] for module in modules} - {"funcgrad", "numpy"}
    assert {module for module in standard if module[0] != "_"} <= STANDARD


def test_what_is_used_is_found_among_what_is_loaded() -> None:
    # Else the test above would hold whatever is loaded.
    modules = loaded(SCRIPTS["jit"])
    for place in ("_staging", "_backends", "numpy.reductions", "_transforms.stage"):
        assert beneath(modules, place)
