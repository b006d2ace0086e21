"""What functions of a family are called with: texts for places that want more than any array.

A matrix that has to be positive definite, a number in the support of a density, a kernel that fits:
``prelude`` makes them of whatever values a program has. Densities are found by discovery.
"""

from __future__ import annotations

from typing import Final

from funcgrad.scipy import stats

_MATRICES: Final = (
    "fnp.linalg.cholesky(definite({0}))",
    "fnp.linalg.cholesky(definite({0}), upper=True)",
    "fnp.linalg.solve(regular({0}), regular({1}))",
    "fnp.linalg.solve(definite({0}), fnp.ravel({1})[:1] + fnp.ones(3))",
    "fnp.linalg.inv(regular({0}))",
    "fnp.linalg.det(matrix({0}))",
    "fnp.linalg.slogdet(regular({0}))[1]",
    "fnp.linalg.slogdet(definite({0})).logabsdet",
    "fnp.linalg.eigvalsh(matrix({0}))",
    "fnp.sum(fnp.tanh(fnp.linalg.eigvalsh(definite({0}))))",
    "spectral(fnp.sin, {0})",
    "spectral(fnp.square, {0})",
    "fnp.linalg.eigvals(regular({0})).real",
    "abs(fnp.linalg.eig(regular({0}))[1])",
    "fnp.linalg.svdvals(matrix({0}))",
    "fnp.linalg.svd(matrix({0}), full_matrices=False)[1]",
    "rebuilt({0})",
    "fnp.linalg.qr(regular({0}))[0]",
    "fnp.linalg.qr(regular({0}), mode='r')",
    "fnp.linalg.lstsq(regular({0})[:, :2], matrix({1}))[0]",
    "fnp.linalg.pinv(regular({0})[:2])",
    "fnp.linalg.pinv(definite({0}), hermitian=True)",
    "fnp.linalg.matrix_power(regular({0}), -2)",
    "fnp.linalg.matrix_power(matrix({0}), 3)",
    "fnp.linalg.norm(matrix({0}), 'nuc')",
    "fnp.linalg.norm(matrix({0}), 2)",
    "fnp.linalg.norm({0})",
    "fnp.linalg.norm({0}, axis=-1, keepdims=True)",
    "fnp.linalg.vector_norm({0}, ord=3, axis=-1)",
    "fnp.linalg.cond(regular({0}))",
    "fnp.linalg.multi_dot([matrix({0}), matrix({1}), matrix({2})])",
    "fnp.linalg.tensorinv(fnp.reshape(regular({0}), (3, 3, 1)), ind=1)",
    "fnp.linalg.tensorsolve(fnp.reshape(regular({0}), (3, 1, 3)), matrix({1})[:, :1])",
    "fg.scipy.linalg.expm(matrix({0}) * 0.5)",
    "fg.scipy.linalg.logm(definite({0})).real",
    "fg.scipy.linalg.sqrtm(definite({0})).real",
    "fg.scipy.linalg.lu(regular({0}))[1]",
    "fg.scipy.linalg.lu(regular({0}), permute_l=True)[0]",
    "fg.scipy.linalg.cho_solve(fg.scipy.linalg.cho_factor(definite({0})), matrix({1}))",
    "fg.scipy.linalg.solve_triangular(regular({0}), matrix({1}))",
    "fg.scipy.linalg.solve_triangular(regular({0}), matrix({1}), trans=1, lower=True)",
    "fg.scipy.linalg.solve_sylvester(definite({0}), definite({1}), matrix({2}))",
    "fg.scipy.linalg.solve_continuous_lyapunov(definite({0}), matrix({1}))",
    "fg.scipy.linalg.solve_discrete_lyapunov(matrix({0}) * 0.125, matrix({1}))",
    "fg.scipy.linalg.block_diag({0}, matrix({1}))",
    "fg.scipy.linalg.toeplitz(fnp.ravel({0})[:3], fnp.ravel({1})[:2])",
)

_SEQUENCES: Final = (
    "fnp.fft.fft({0}).real",
    "fnp.fft.ifft({0}, n=3).imag",
    "fnp.fft.rfft({0}.real, norm='ortho')",
    "fnp.fft.irfft(fnp.fft.rfft({0}.real), n={0}.shape[-1])",
    "fnp.fft.fftn({0}, axes=(-1,), norm='forward')",
    "fnp.fft.hfft({0})",
    "fnp.fft.ihfft({0}.real)",
    "fnp.fft.fftshift(fnp.fft.fft2(matrix({0})))",
    "fg.scipy.fft.dct({0}.real)",
    "fg.scipy.fft.idct({0}.real, type=3, norm='ortho')",
    "fg.scipy.fft.dst({0}.real, type=4)",
    "fg.scipy.fft.dctn(matrix({0}).real)",
    "fnp.convolve(fnp.ravel({0}), fnp.ravel({1}))",
    "fnp.convolve(fnp.ravel({0}), fnp.ravel({1}), 'same')",
    "fnp.correlate(fnp.ravel({0}), fnp.ravel({1}), 'valid')",
    "fg.nn.conv(image({0}), image({1}))",
    "fg.nn.conv(image({0}), image({1}), stride=2, padding=1, dilation=2)",
    "fg.nn.conv(image({0}), image({1})[..., :2, :2], padding='same')",
    "fg.nn.conv_transpose(image({0}), image({1}), stride=2, padding=1)",
    "fg.nn.max_pool(image({0}), 2, stride=1)",
    "fg.nn.max_pool(image({0}), 2, padding=1)",
    "fg.nn.avg_pool(image({0}), 2, stride=1, padding=1)",
    "fg.nn.adaptive_avg_pool(image({0}), 2)",
    "fg.nn.adaptive_max_pool(image({0}), 2)",
    "fnp.lib.stride_tricks.sliding_window_view(fnp.ravel({0}), 1)",
)

_NUMBERS: Final = (
    "fg.scipy.special.logsumexp({0}.real, axis=-1, b={1}.real * {1}.real)",
    "fg.scipy.special.softmax({0}.real, axis=-1)",
    "fg.scipy.special.log_softmax({0}.real)",
    "fg.scipy.special.multigammaln(above({0}, 2.0), 3)",
    "fg.scipy.special.comb(above({0}, 2.0), between({1}, 0.0, 2.0))",
    "fg.scipy.special.perm(above({0}, 2.0), between({1}, 0.0, 2.0))",
    "fg.scipy.special.factorial(above({0}, 0.25))",
    "fg.scipy.special.zeta(above({0}, 1.5))",
    "fg.scipy.special.erf({0}.real)",
    "fg.scipy.special.ndtri(between({0}, 0.0, 1.0))",
    "fg.scipy.special.betainc(above({0}, 0.5), above({1}, 0.5), between({2}, 0.0, 1.0))",
    "fg.scipy.special.gammainc(above({0}, 0.5), above({1}, 0.1))",
    "fnp.select([{0}.real > 0, {1}.real > 0.5], [{0}, {1}], 0.25)",
    "fnp.piecewise({0}, [{0}.real > 0], [fnp.sin, fnp.cos])",
    "fnp.block([[matrix({0}), matrix({1})], [matrix({1}), matrix({0})]])",
    "fnp.take_along_axis({0}, fnp.argsort({0}.real, axis=-1), axis=-1)",
    "fnp.put_along_axis({0}, fnp.argmax({1}.real, axis=-1, keepdims=True), 0.5, axis=-1)",
    "fnp.dynamic_slice(fnp.resize({0}, (3, 3)), (fnp.argmax({1}.real), 1), (1, 2))",
    "fnp.dynamic_update_slice(fnp.resize({0}, (3,)), fnp.ravel({0})[:1], (fnp.argmin({1}.real),))",
    "fnp.roll({0}, fnp.argmax({1}.real))",
    "fnp.tril(matrix({0}), fnp.argmin({1}.real) - 1)",
    "fnp.full((2, 3), total({0}))",
    "fnp.digitize({0}.real, [-0.5, 0.0, 0.5])",
    "fnp.lexsort(({0}.real, {1}.real))",
    "fnp.isin({0}, {1})",
    "fnp.array_equal({0}, {1})",
    "fnp.allclose({0}, {1})",
    "fnp.histogram(fnp.ravel({0}).real, [-9.0, 0.0, 9.0], weights=fnp.ravel({0}))[0]",
    "fnp.bincount([0, 2, 2], weights=fnp.resize({0}, (3,)).real)",
    "fnp.linspace({0}, {1}, 3)",
    "fnp.logspace({0}.real, {1}.real, 3)",
    "fnp.geomspace(above({0}, 0.5), above({1}, 0.5), 3)",
    "fnp.gradient(matrix({0}), axis=0)",
    "fnp.gradient(matrix({0}), 0.5, axis=1, edge_order=2)",
    "fnp.poly(matrix({0})[0])",
    "fnp.polyval(matrix({0})[0], {1})",
    "fnp.unwrap({0}.real)",
    "fnp.interp({0}.real, fnp.sort(fnp.ravel({1}.real)), fnp.ravel({1}.real))",
    "fnp.trapezoid({0}, axis=-1)",
    "{0}[fnp.ix_([0, 0])]",
    "fnp.compress([True, False], {0}, axis=0)",
    "fnp.extract([True, False, True], fnp.resize({0}, (3,)))",
)

_TOTALS: Final = (
    "fg.associative_scan(fnp.add, {0})",
    "fg.associative_scan(fnp.multiply, fnp.tanh({0}), axis=-1)",
    "fg.associative_scan(lambda a, b: a * b + a + b, fnp.tanh({0}), reverse=True)",
    "fg.associative_scan(fnp.maximum, {0}.real, reverse=True, axis=-1)",
    "fg.associative_scan(fnp.matmul, 0.25 * fnp.stack([matrix({0}), regular({1}), matrix({2})]))",
    "fg.associative_scan(fnp.add, fnp.resize({0}, (7, 2)))",
    "composed({0}, {1})",
    "composed({0}, {1}, reverse=True, axis=-1)",
    "composed(fnp.resize({0}, (6,)), {1})",
)

_STRANGERS: Final = (
    "eigenvalues(definite({0}).real)[0]",
    "abs(eigenvalues(definite({0}).real)[1])",
    "iterated(lambda x, y: (fnp.sin(y), 0.5 * x - y), 3, matrix({0}).real, matrix({1}).real)[1]",
)

_SUPPORTS: Final = {
    "beta": ("between({0}, 0.0, 1.0)", "above({1}, 0.5)", "above({2}, 0.5)"),
    "chi2": ("above({0}, 0.1)", "above({1}, 0.5)"),
    "expon": ("above({0}, 0.1)",),
    "gamma": ("above({0}, 0.1)", "above({1}, 0.5)"),
    "lognorm": ("above({0}, 0.1)", "above({1}, 0.5)"),
    "t": ("{0}.real", "above({1}, 0.5)"),
    "uniform": ("between({0}, 0.0, 1.0)",),
    "bernoulli": ("({0}.real > 0) * 1.0", "between({1}, 0.0, 1.0)"),
    "binom": ("fnp.floor(between({0}, 0.0, 5.0))", "5", "between({1}, 0.0, 1.0)"),
    "nbinom": ("fnp.floor(between({0}, 0.0, 5.0))", "above({1}, 0.5)", "between({2}, 0.0, 1.0)"),
    "poisson": ("fnp.floor(between({0}, 0.0, 5.0))", "above({1}, 0.5)"),
    "dirichlet": ("simplex({0})", "fnp.resize(above({1}, 0.5), (3,))"),
    "multivariate_normal": ("matrix({0}).real", "matrix({1})[0].real", "definite({2}).real"),
}
"""Arguments of densities; others take any number."""


def _densities() -> tuple[str, ...]:
    texts = []
    for name in stats.__all__:
        distribution = getattr(stats, name)
        args = _SUPPORTS.get(name, ("{0}.real",))
        methods = [each for each in dir(distribution) if each.startswith(("log", "p", "cdf", "sf"))]
        for method in methods:
            first = "between({0}, 0.0, 1.0)" if method == "ppf" else args[0]
            texts.append(f"fg.scipy.stats.{name}.{method}({', '.join([first, *args[1:]])})")
    return tuple(texts)


FAMILIES: Final = (*_MATRICES, *_SEQUENCES, *_NUMBERS, *_TOTALS, *_STRANGERS, *_densities())
"""Texts in the places of which values of one shape or of shapes that broadcast are tried."""
