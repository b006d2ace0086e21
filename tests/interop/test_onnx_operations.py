"""Every operation at its samples, as a model of ONNX's; those without operators are listed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad import errors
from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import concrete
from funcgrad.tensor.tensor import wrap
from tests.conformance import every_case, every_primitive, representatives
from tests.interop.onnx_checks import difference, feed_of, reference, runtime

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

UNWRITTEN = frozenset(
    """    airy_ai airy_ai_slope airy_bi airy_bi_slope at_ties beta beta_density beta_tail betainc
    betainc_in_shapes betaincc betainccinv betaincinv betaln binom boxcox boxcox1p
    cofactors_along complement cosine_integral cut_off dawsn dawsn_derivative determined
    divide_by_gaps divide_by_sums eigh eigh_factors eigvalsh ellipe ellipe_derivative ellipk
    ellipk_derivative ellipkm1 ellipkm1_derivative erf_of_complex erfcinv erfcx erfcx_derivative
    erfi erfinv eval_chebyt eval_chebyu eval_gegenbauer eval_genlaguerre eval_hermite
    eval_hermitenorm eval_jacobi eval_legendre exchanges exp1 expi expm expm_along expn
    exponential_moment exprel flat_places fresnel_cosine fresnel_sine gamma gamma_density
    gamma_tail gammainc gammainc_in_shape gammaincc gammainccinv gammaincinv gammasgn gcd hyp0f1
    hyp1f1 hyp2f1 hyperbolic_cosine_integral hyperbolic_sine_integral hyperu i0 i0e i1 i1e
    independent_of_phases inv_boxcox inv_boxcox1p irfft iv iv_in_order ive ive_derivative j0 j1
    jv jv_in_order k0 k0e k1 k1e known_to_be_smooth kv kv_in_order kve kve_derivative
    last_writes lcm least_squares log_betainc_factor log_gammainc log_gammaincc log_ndtr
    log_rising loggamma logm logm_along lu ndtri_exp nextafter odds_to_share of_full_rank
    owens_t permuted_rows pinv poch polar_factor polygamma polygamma_rise
    positive_singular_values powm1 qr regular_form rgamma
    riemann_zeta riemann_zeta_derivative rows_after_exchanges sampled_product schur schur_turn
    search_cumulative sine_integral skew_part spacing sparse_product sparse_solve spence
    spherical_in spherical_jn spherical_kn spherical_yn sqrtm stdtr stdtrit stein svd
    svd_factors svdvals sylvester turned_eigh turned_svd value_slopes voigt_profile with_values
    wrightomega y0 y1 yv yv_in_order zeta zeta_derivative zetac
    """.split()
)
"""Operations on real numbers without a model: special functions that SciPy alone evaluates,
eigenvalues and the like, and some of integers."""


def real_cases(primitive: Primitive) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Some samples of an operation on real numbers, with results that are real."""
    cases = representatives(every_case([primitive]))
    for case in dict.fromkeys([cases[0], cases[len(cases) // 2], cases[-1]]) if cases else ():
        args, params = case.sample.args, case.sample.params
        try:
            with np.errstate(all="ignore"):
                out = primitive.evaluate(*args, **params)
        except (errors.FuncgradError, ArithmeticError, ValueError):
            continue  # a sample that is refused
        results = out if isinstance(out, tuple) else (out,)
        if not any(np.asarray(x).dtype.kind == "c" for x in (*args, *results)):
            yield case, results


def staged_case(primitive: Primitive, case: Any) -> fg.Program:
    def function(*args: Any) -> Any:
        out = primitive(*[concrete(wrap(x)) for x in args], **case.sample.params)
        return tuple(map(wrap, out)) if isinstance(out, tuple) else wrap(out)

    return fg.program(function)(*case.sample.args)


def is_written(primitive: Primitive) -> bool:
    """Whether the operation has models; their values are compared."""
    written = False
    for case, expected in real_cases(primitive):
        staged = staged_case(primitive, case)
        try:
            model = staged.to_onnx()
        except errors.ProgramError:
            continue
        written = True
        onnx.checker.check_model(model, full_check=True)
        feed = feed_of(model, staged, case.sample.args)
        for run in (reference, runtime):
            if run is runtime and any(np.any(x != x) for x in expected):
                continue  # onnxruntime drops NaN in maxima
            outs = run(model, feed)
            worst = max([difference(a, b) for a, b in zip(outs, expected, strict=True)])
            assert worst <= 1, (case.described(), run.__name__, worst)
    return written


@pytest.mark.slow
def test_every_operation_has_a_model_or_is_listed() -> None:
    primitives = (*every_primitive(), *every_primitive(several=True))
    unwritten = {each.name for each in primitives if any(real_cases(each)) and not is_written(each)}
    assert sorted(unwritten) == sorted(UNWRITTEN)
