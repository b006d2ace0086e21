"""SciPy's own special functions call ours, and those that we lack are listed with reasons."""

import importlib
import subprocess
import sys
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pytest
import scipy.special

import funcgrad as fg
from funcgrad.errors import MissingPackageError
from funcgrad.scipy import special
from tests.scripts import printed
from tests.together import together
from tests.tools.benchmarks.coverage import of_some_versions

NODES = "nodes and weights, lists of zeros or whole tables: constants, which NumPy holds"
POLYNOMIALS = "polynomials as objects, which are no tensors"
SEVERAL = "several results, or a whole table of them, in one call"
OF_STATS = "a distribution function that is no incomplete gamma or beta function of its parameters"
DISCRETE = "a function of whole numbers"
SETTINGS = "warnings and errors of SciPy's own"
NO_RULE = "no rule: on concrete tensors SciPy's own works, and a derivative is an error"

EXCLUDED: Final = MappingProxyType(
    dict.fromkeys(
        """ai_zeros bei_zeros beip_zeros ber_zeros berp_zeros bi_zeros erf_zeros fresnel_zeros
        fresnelc_zeros fresnels_zeros jn_zeros jnjnp_zeros jnp_zeros jnyn_zeros kei_zeros keip_zeros
        kelvin_zeros ker_zeros kerp_zeros y0_zeros y1_zeros y1p_zeros yn_zeros ynp_zeros c_roots
        cg_roots h_roots he_roots j_roots js_roots l_roots la_roots p_roots ps_roots s_roots t_roots
        ts_roots u_roots us_roots roots_chebyc roots_chebys roots_chebyt roots_chebyu
        roots_gegenbauer roots_genlaguerre roots_hermite roots_hermitenorm roots_jacobi
        roots_laguerre roots_legendre roots_sh_chebyt roots_sh_chebyu roots_sh_jacobi
        roots_sh_legendre euler mathieu_even_coef mathieu_odd_coef obl_cv_seq
        pro_cv_seq""".split(),
        NODES,
    )
    | dict.fromkeys(
        """chebyc chebys chebyt chebyu gegenbauer genlaguerre hermite hermitenorm jacobi laguerre
        legendre sh_chebyt sh_chebyu sh_jacobi sh_legendre""".split(),
        POLYNOMIALS,
    )
    | dict.fromkeys(
        """airye ellipj it2i0k0 it2j0y0 itairy iti0k0 itj0y0 lqmn lqn lmbda mathieu_cem
        mathieu_modcem1
        mathieu_modcem2 mathieu_modsem1 mathieu_modsem2 mathieu_sem modfresnelm modfresnelp obl_ang1
        obl_ang1_cv obl_rad1 obl_rad1_cv obl_rad2 obl_rad2_cv pbdn_seq pbdv pbdv_seq pbvv pbvv_seq
        pbwa pro_ang1 pro_ang1_cv pro_rad1 pro_rad1_cv pro_rad2 pro_rad2_cv riccati_jn riccati_yn
        assoc_legendre_p_all legendre_p_all sph_harm_y_all sph_legendre_p_all""".split(),
        SEVERAL,
    )
    | dict.fromkeys(
        """bdtrik bdtrin btdtria btdtrib chdtriv chndtr chndtridf chndtrinc chndtrix fdtridfd gdtrib
        kolmogi kolmogorov nbdtrik nbdtrin ncfdtr ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc nctdtr
        nctdtridf nctdtrinc nctdtrit nrdtrimn nrdtrisd pdtrik smirnov smirnovi stdtridf
        tklmbda""".split(),
        OF_STATS,
    )
    | dict.fromkeys("factorial2 factorialk round stirling2".split(), DISCRETE)
    | dict.fromkeys(
        "errstate geterr seterr SpecialFunctionError SpecialFunctionWarning".split(), SETTINGS
    )
    | dict.fromkeys(
        """agm assoc_laguerre assoc_legendre_p besselpoly cosdg cotdg diric ellip_harm ellip_harm_2
        ellip_normal ellipeinc ellipkinc elliprc elliprd elliprf elliprg elliprj eval_sh_jacobi
        hankel1e hankel2e it2struve0 itmodstruve0 itstruve0 jve legendre_p log_wright_bessel lpmv
        mathieu_a mathieu_b modstruve obl_cv pro_cv radian sindg sph_legendre_p struve tandg
        wright_bessel yve""".split(),
        NO_RULE,
    )
)

UFUNCS = sorted(
    name
    for name in set(scipy.special.__all__) & set(special.__all__)
    if isinstance(getattr(scipy.special, name), np.ufunc)
)


def test_every_function_of_scipys_is_here_or_has_a_reason() -> None:
    theirs = set(scipy.special.__all__) - set(of_some_versions("scipy.special"))
    assert sorted(theirs - set(special.__all__) - set(EXCLUDED)) == []
    assert sorted(set(special.__all__) & set(EXCLUDED)) == []
    assert sorted(set(special.__all__) - theirs) == ["bessel_jn"]  # JAX's


def _last(function: Any) -> Any:
    """The real part of a function's result, of the last one if there are several."""

    def real(*args: Any) -> Any:
        found = function(*args)
        return (found[-1] if isinstance(found, tuple) else found).real

    return real


@together("name", UFUNCS)
def test_scipys_ufunc_reaches_ours(name: str) -> None:
    theirs: Any = getattr(scipy.special, name)
    # Half a whole number inside of every domain, beside whole numbers where there have to be.
    whole = [2.0] * (theirs.nin - 1) if name in ("hyp0f1", "hyp1f1", "hyp2f1") else []
    args = [*whole, *[0.5] * (theirs.nin - len(whole))]
    if name in ("expn", "polygamma") or name.startswith("eval_"):
        args = [2, *[0.5] * (theirs.nin - 1)]
    if name.startswith(("bdtr", "nbdtr")):
        args = [1, 3, 0.5]
    if name in ("yn", "kn"):  # SciPy's have whole orders
        args = [2.0, 0.5]
    if name == "zeta":
        args = [1.5, 0.5]
    t = [fg.tensor(x) for x in args]
    assert isinstance(_last(theirs)(*t), fg.Tensor)
    np.testing.assert_array_equal(_last(theirs)(*t), _last(getattr(special, name))(*t))
    last = len(args) - 1
    slope = fg.grad(_last(theirs), last)(*args)
    np.testing.assert_array_equal(slope, fg.grad(_last(getattr(special, name)), last)(*args))


def test_functions_that_are_no_ufuncs_take_concrete_tensors() -> None:
    t = fg.tensor([0.5, 1.5])
    np.testing.assert_allclose(scipy.special.logsumexp(t), special.logsumexp(t), rtol=1e-15)
    np.testing.assert_allclose(scipy.special.softmax(t), special.softmax(t), rtol=1e-15)


WITHOUT_SCIPY = """
import sys
sys.modules["scipy"] = None
import funcgrad as fg
from funcgrad.scipy import special
assert float(special.expit(0.0)) == 0.5 and float(special.erf(0.0)) == 0.0
assert float(fg.grad(special.logsumexp)(1.0)) == 1.0
try:
    special.gammaln(3.0)
except fg.errors.MissingPackageError as error:
    print(error)
"""


def test_without_scipy_what_needs_it_says_so() -> None:
    assert printed(WITHOUT_SCIPY) == (
        "gammaln: SciPy evaluates this function, and it is not installed. Install it with"
        " `pip install scipy`.\n"
    )
    assert issubclass(MissingPackageError, ImportError)


def test_importing_loads_no_scipy() -> None:
    code = "import sys, funcgrad.scipy.special; print('scipy' in sys.modules)"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "False\n"


def test_the_parts_are_loaded_when_they_are_used() -> None:
    package = importlib.import_module("funcgrad.scipy")
    assert package.special is special
    with pytest.raises(AttributeError, match=r"fg\.scipy has no spatial: fnp\.linalg\.norm"):
        _ = package.spatial
    with pytest.raises(AttributeError, match="no attribute 'spatula'"):
        _ = package.spatula
