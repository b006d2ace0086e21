"""Names of other libraries, each with the replacement in funcgrad: rows that errors look up.

They are names of JAX, optax, PyTorch, autograd, equinox and SciPy that users try first. This file
is loaded only after such a mistake.

>>> [advice for home, names, advice in NAMES if home == "fg.random" and "clone" in names.split()]
['fg.random.again(key)']
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Final

from funcgrad._hints.training_names import KEYS, LOSS, TRAINING_NAMES, Row

_UNRECORDED: Final = (
    "operations are recorded only inside fg.grad, fg.vjp and others; there, fg.stop_gradient(x)"
    " is a constant"
)
_ROOT: Final = (
    "fg.implicit.root(f, solver) adds derivatives to the result of any solver, also of SciPy's"
)

NAMES: Final[tuple[Row, ...]] = (
    # Transformations.
    (
        "fg",
        "lax",
        "its loops and branches are fg.scan, fg.while_loop, fg.fori_loop, fg.cond, fg.switch and"
        " fg.map, its array functions are in funcgrad.numpy",
    ),
    ("fg", "remat", "fg.checkpoint(f)"),
    ("fg", "make_jaxpr", "fg.program(f)(*args) is the program, and prints"),
    ("fg", "eval_shape", "fg.program(f)(*args) prints the shapes and dtypes of the results"),
    ("fg", "custom_gradient", "fg.custom_vjp, with f.defvjp(forward, backward)"),
    ("fg", "pure_callback", "fg.extend declares an operation, with any function to evaluate it"),
    ("fg", "pmap shard_map", "main memory is the only device: fg.vmap(f)"),
    ("fg", "device_count", "len(fg.devices())"),
    ("fg", "device_put", "fg.put(x, device)"),
    ("fg", "device_get", "fg.get(x)"),
    ("fg", "cuda", "fg.devices() lists the devices, fg.put(x, device) copies to one"),
    (
        "fg",
        "config enable_x64",
        "the default dtype is float64, as in NumPy; fg.tensor(x, dtype='float32') chooses another",
    ),
    ("fg", "block_until_ready", "operations return when their result is complete; leave it out"),
    ("fg", "Array ndarray", "the class of arrays is fg.Tensor"),
    ("fg", "hessian_vector_product make_hvp", "fg.hvp(f, (x,), (v,))"),
    ("fg", "make_vjp vector_jacobian_product", "out, pullback = fg.vjp(f, *args)"),
    ("fg", "make_jvp", "out, tangent = fg.jvp(f, primals, tangents)"),
    ("fg", "grad_and_aux", "fg.grad(f, has_aux=True)"),
    ("fg", "elementwise_grad deriv", "fg.grad(lambda x: fnp.sum(f(x)))(x), or fg.vmap(fg.grad(f))"),
    ("fg", "holomorphic_grad", "fg.grad(f, holomorphic=True)"),
    (
        "fg",
        "defvjp defjvp",
        "fg.custom_vjp and fg.custom_jvp give a function a rule, fg.extend declares operations",
    ),
    ("fg", "no_grad enable_grad set_grad_enabled inference_mode", _UNRECORDED),
    ("fg", "autograd backward GradientTape", f"tensors record no graph: {LOSS}"),
    ("fg", "Variable Parameter", f"a parameter is an ordinary fg.tensor(values): {LOSS}"),
    ("fg", "function compile", "fg.jit(f)"),
    ("fg", "func", "its transformations are fg.grad, fg.vjp, fg.jvp, fg.vmap and others"),
    ("fg", "filter_jit", "fg.jit(f); declare fields that are not arrays with fg.static_field()"),
    ("fg", "filter_grad", "fg.grad(f); declare fields that are not arrays with fg.static_field()"),
    ("fg", "filter_value_and_grad", "fg.value_and_grad(f)"),
    ("fg", "filter_vmap", "fg.vmap(f)"),
    (
        "fg",
        "Module field",
        "@fg.pytree above a class makes it a frozen dataclass whose fields are leaves, except for"
        " fields declared with fg.static_field()",
    ),
    ("fg", "tree_at", "fg.tree.at(tree).layers[0].weight.set(value)"),
    ("fg", "dynamic_slice", "fnp.dynamic_slice, or x[start : start + size] for a constant size"),
    ("fg", "dynamic_update_slice", "fnp.dynamic_update_slice"),
    (
        "fg fnp",
        "segment_sum scatter_add index_add",
        "fnp.zeros(count).at[segments].add(x); max and min are .at[segments].max(x) and .min(x)",
    ),
    ("fg", "ops", "fnp.zeros(count).at[segments].add(x) is segment_sum(x, segments)"),
    (
        "fg",
        "optimizers example_libraries",
        "init, update, get_params = optimizers.adam(0.1) is optimizer = fg.optim.adam(0.1), with"
        " state = optimizer.init(params); params, state = optimizer.step(grads, state, params)",
    ),
    (
        "fg fg.nn",
        "stax serial",
        "init, apply = stax.serial(Dense(8), Relu) is model = fg.nn.build(fg.nn.sequential("
        "fg.nn.dense(8), fg.nn.relu), key, x), which is called: model(x)",
    ),
    (
        "fg fg.extend",
        "defjvps defvjp_all",
        "one rule for all arguments: f.defjvp(lambda primals, tangents: (out, out_tangent)), where"
        " f is fg.custom_jvp(function)",
    ),
    (
        "fg",
        "disable_jit",
        "call the function without fg.jit; fg.debug.nans(f) runs it operation by operation, and"
        " fg.debug.print prints in programs",
    ),
    (
        "fg",
        "ShapeDtypeStruct",
        "fg.program(f)(fnp.zeros(shape, dtype)) takes an example, whose values do not matter",
    ),
    ("fg", "experimental", "use the public names: loops, fg.odeint, fg.debug.check and fg.extend"),
    (
        "fg",
        "diffeqsolve",
        "fg.odeint(lambda y, t, *args: slope, y0, ts, *args) returns y at the times ts",
    ),
    ("fg", "debug_nans", "fg.debug.nans(f), or with fg.debug.raise_nans()"),
    (
        "fg fg.debug",
        "callback",
        "fg.debug.print prints in programs, and fg.extend declares operations of any function",
    ),
    ("fg.debug", "breakpoint", "Python's breakpoint() works in functions called without fg.jit"),
    ("fg", "clear_caches", "programs live as long as their fg.jit(f); call fg.jit(f) again"),
    # Arrays and trees.
    ("fg", "from_numpy as_tensor", "fg.tensor(array)"),
    ("fg", "cat", "fnp.concatenate(tensors, axis)"),
    ("fg", "is_tensor", "isinstance(x, fg.Tensor)"),
    ("fg", "manual_seed seed PRNGKey", KEYS),
    ("fg", "tree_util", "fg.tree.map, fg.tree.flatten and fg.tree.leaves"),
    *tuple(
        (home, f"tree_{name}", f"fg.tree.{name}")
        for home in ("fg", "fg.tree")
        for name in "map leaves flatten unflatten structure reduce transpose all".split()
    ),
    (
        "fg.tree",
        "register_pytree_node register_pytree_node_class register_dataclass",
        "@fg.pytree above the class, or __tree_flatten__ and __tree_unflatten__ in it",
    ),
    ("fg.tree", "map_structure multimap tree_multimap", "fg.tree.map(f, tree, *rest)"),
    ("fg.tree", "zeros_like", "fg.tree.map(fnp.zeros_like, tree)"),
    ("fg.tree", "ones_like", "fg.tree.map(fnp.ones_like, tree)"),
    ("fg.tree", "tree_at", "fg.tree.at(tree).layers[0].weight.set(value)"),
    ("fg.tree", "filter", "chosen, others = fg.tree.partition(tree, where)"),
    ("fg.tree", "ravel_pytree", "vector, restore = fg.tree.ravel(tree)"),
    ("fg.tree", "size", "fg.tree.count(tree)"),
    ("fg.tree", "l2_norm global_norm", "fg.tree.norm(tree)"),
    # Equations.
    (
        "fg",
        "solve_ivp",
        "fg.integrate.solve_ivp(fun, t_span, y0, method, t_eval), with SciPy's signature",
    ),
    ("fg", "odeint_adjoint", 'fg.odeint(f, y0, ts, derivative="adjoint")'),
    ("fg", "quad", "fg.integrate.quad(f, a, b)"),
    ("fg.scipy", "integrate", "fg.integrate has SciPy's functions"),
    ("fg.scipy", "interpolate", "fg.interpolate has SciPy's classes"),
    (
        "fg.scipy.signal",
        "find_peaks find_peaks_cwt argrelextrema argrelmax argrelmin peak_prominences peak_widths",
        "scipy.signal.{name}(np.asarray(x)): places have no derivative, and x[places] has one",
    ),
    (
        "fg.scipy.signal",
        "butter cheby1 cheby2 ellip bessel iirfilter iirdesign firwin firwin2 firls remez",
        "scipy.signal.{name}: it makes constant coefficients, which lfilter and sosfilt take",
    ),
    ("fg.scipy.signal", "spectrogram", "abs(fg.scipy.signal.stft(x, ...)[2]) ** 2"),
    (
        "fg",
        "CubicSpline PchipInterpolator Akima1DInterpolator BSpline interp1d"
        " RegularGridInterpolator RBFInterpolator make_interp_spline",
        "fg.interpolate.{name}",
    ),
    ("fg.interpolate", "pchip", "fg.interpolate.PchipInterpolator"),
    ("fg.interpolate", "InterpolatedUnivariateSpline splrep", "fg.interpolate.make_interp_spline"),
    (
        "fg.interpolate",
        "RectBivariateSpline interp2d",
        'fg.interpolate.RegularGridInterpolator((x, y), z, method="cubic")',
    ),
    ("fg.interpolate", "Rbf", "fg.interpolate.RBFInterpolator"),
    (
        "fg.interpolate",
        "griddata LinearNDInterpolator CloughTocher2DInterpolator",
        "fg.interpolate.RBFInterpolator for scattered data",
    ),
    ("fg", "ndimage", "fg.scipy.ndimage"),
    (
        "fg.scipy.ndimage",
        "geometric_transform",
        "fg.scipy.ndimage.map_coordinates(image, coordinates)",
    ),
    (
        "fg.scipy.ndimage",
        "median_filter maximum_filter minimum_filter",
        "fnp.median, max or min of fnp.lib.stride_tricks.sliding_window_view(image, size)",
    ),
    ("fg.scipy", "spatial", "fnp.linalg.norm(x[:, None] - y, axis=-1) is all distances"),
    ("fg.scipy", "constants", "they are Python floats: import scipy.constants"),
    (
        "fg.scipy.optimize",
        "root root_scalar fixed_point curve_fit minimize_scalar",
        "fg.optimize.{name}",
    ),
    ("fg.scipy.optimize fg.optimize", "fsolve", "fg.optimize.root(f, x0)"),
    (
        "fg.scipy.optimize fg.optimize",
        "newton brentq bisect",
        "fg.optimize.root_scalar(f, method='{name}', ...)",
    ),
    ("fg.optimize", "leastsq LevenbergMarquardt GaussNewton", "fg.optimize.least_squares(f, x0)"),
    ("fg.optimize", "fmin fmin_bfgs BFGS", "fg.optimize.minimize(f, x0)"),
    ("fg.optimize", "minimise", "fg.optimize.minimize"),
    ("fg.optimize", "root_find", "fg.optimize.root(f, x0)"),
    (
        "fg.optimize",
        "differential_evolution dual_annealing linprog milp linear_sum_assignment",
        "scipy.optimize.{name}; it has no derivative",
    ),
    ("fg.scipy.optimize", "approx_fprime", "fg.grad(f)"),
    ("fg.scipy.optimize", "check_grad", "fg.testing.check_grads(f, args)"),
    ("fg.scipy.sparse", "eye kron random block_array", "fg.sparse.{name}"),
    (
        "fg.scipy.sparse fg.sparse",
        "diags_array eye_array random_array",
        "fg.sparse.diags, fg.sparse.eye, fg.sparse.random",
    ),
    (
        "fg.scipy.sparse fg.sparse",
        "csr_matrix csr_array csc_matrix csc_array coo_matrix coo_array BCOO BCSR",
        "fg.sparse.array(data, indices, indptr, shape) of compressed rows, or"
        " fg.sparse.from_scipy(scipy.sparse.coo_array(...))",
    ),
    ("fg.sparse", "jacfwd jacrev jac", "fg.sparse.jacobian(f)"),
    ("fg.sparse", "value_and_jac", "fg.sparse.value_and_jacobian(f)"),
    ("fg.sparse", "linalg", "fg.scipy.sparse.linalg"),
    ("fg fg.sparse fg.scipy.sparse", "spsolve splu factorized", "fg.scipy.sparse.linalg.{name}"),
    (
        "fg fg.scipy.sparse fg.scipy.sparse.linalg",
        "lsqr lsmr minres eigsh",
        "scipy.sparse.linalg.{name}(fg.sparse.jacobian_operator(f)(x), ...), without derivatives;"
        " or fg.scipy.sparse.linalg.cg, gmres or bicgstab",
    ),
    (
        "fg.scipy.sparse.linalg",
        "LinearOperator aslinearoperator",
        "a linear function is the operator: lambda x: A @ x; for SciPy's solvers"
        " fg.sparse.jacobian_operator(f)(x)",
    ),
    ("fg.scipy.stats", "pearsonr", "fnp.corrcoef(x, y)[0, 1]"),
    ("fg.scipy.stats", "zscore", "(x - fnp.mean(x)) / fnp.std(x)"),
    ("fg.scipy.stats", "iqr", "fnp.quantile(x, 0.75) - fnp.quantile(x, 0.25)"),
    ("fg.scipy.stats", "entropy", "fnp.sum(fg.scipy.special.entr(p))"),
    ("fg.scipy.stats", "skew kurtosis", "fnp.mean(((x - x.mean()) / x.std()) ** 3), or ** 4"),
    ("fg.scipy.stats", "linregress", "fnp.polyfit(x, y, 1), or fnp.linalg.lstsq"),
    (
        "fg.scipy.stats",
        "bootstrap",
        "fg.vmap(lambda key: f(data[fg.random.randint(key, data.shape[:1], 0, len(data))]))(keys)",
    ),
    (
        "fg.scipy.stats",
        "rv_continuous rv_discrete",
        "a density is a function of x, and fg.odeint integrates it",
    ),
    *TRAINING_NAMES,
    # Arrays under other names.
    ("fnp", "tensor", "fg.tensor(values)"),
    ("fnp", "cat", "fnp.concatenate(tensors, axis)"),
    ("fnp", "unsqueeze", "fnp.expand_dims(x, axis)"),
    ("fnp", "permute", "fnp.transpose(x, axes)"),
    ("fnp", "mm bmm", "a @ b"),
    ("fnp", "clamp", "fnp.clip(x, low, high)"),
    ("fnp", "norm", "fnp.linalg.norm(x)"),
    ("fnp", "rsqrt", "1.0 / fnp.sqrt(x)"),
    ("fnp", "index_select", "fnp.take(x, indices, axis)"),
    ("fnp", "gather", "fnp.take_along_axis(x, indices, axis)"),
    ("fnp", "masked_fill", "fnp.where(mask, value, x)"),
    ("fnp", "topk", "fnp.sort(x)[..., -k:], or fnp.argpartition(x, -k)[..., -k:]"),
    ("fnp", "product", "fnp.prod(x)"),
    ("fnp", "float_", "fnp.float64"),
    ("fnp", "Inf infty PINF", "fnp.inf"),
    ("fnp", "NaN NAN", "fnp.nan"),
    ("fnp", "random", "fg.random, whose functions take a key"),
    (
        "fnp",
        "relu sigmoid softmax log_softmax gelu silu softplus elu leaky_relu one_hot",
        "fg.nn.{name}(x)",
    ),
    (
        "fnp",
        "erf erfc erfinv gamma gammaln digamma polygamma expit logit xlogy betaln",
        "fg.scipy.special.{name}(x)",
    ),
    ("fnp", "grad value_and_grad jit vmap vjp jvp scan cond", "fg.{name}"),
)
"""Rows of a module, names that it lacks, and a replacement."""

CALLERS: Final[tuple[Row, ...]] = (
    (
        "scipy.integrate",
        "solve_ivp odeint ode",
        "fg.integrate.solve_ivp, with SciPy's arguments, has all derivatives",
    ),
    (
        "scipy.integrate",
        "quad fixed_quad quad_vec",
        "fg.integrate has quad, fixed_quad and tanhsinh, with derivatives",
    ),
    (
        "scipy.integrate",
        "simpson",
        "fnp.trapezoid(y, x), or for an odd number of equal steps dx the sum"
        " dx / 3 * fnp.sum(y[:-2:2] + 4 * y[1:-1:2] + y[2::2])",
    ),
    ("scipy.integrate", "trapezoid cumulative_trapezoid", "fnp.trapezoid(y, x)"),
    ("scipy.interpolate", "", "fg.interpolate has classes of the same names, with derivatives"),
    (
        "scipy.sparse",
        "",
        "fg.sparse.from_scipy(A) makes an array whose elements are differentiated",
    ),
    ("pandas", "", "df.to_numpy() @ x: a DataFrame cannot hold tensors"),
    ("scipy.optimize", "minimize minimize_scalar", "fg.implicit.minimize(f, solver)"),
    ("scipy.optimize", "least_squares curve_fit", "fg.implicit.least_squares(f, solver)"),
    (
        "scipy.optimize",
        "root root_scalar fsolve newton brentq brenth bisect ridder toms748",
        "fg.implicit.root(f, solver)",
    ),
    ("scipy.optimize", "fixed_point", "fg.fixed_point(f, init, *args)"),
    (
        "numpy.polynomial",
        "",
        "fnp.polyval, polyder, polyint and polymul take tensors as coefficients, the highest power"
        " first; a sum of fg.scipy.special.eval_chebyt and so on has other bases",
    ),
    (
        "numpy.lib._index_tricks_impl",
        "AxisConcatenator",
        "fnp.r_[...] and fnp.c_[...] take traced values",
    ),
    ("scipy.signal", "", "fg.scipy.signal has functions of the same names, with derivatives"),
    ("scipy.ndimage", "", "fg.scipy.ndimage has functions of the same names, with derivatives"),
    ("scipy.spatial", "cdist pdist", "fnp.linalg.norm(x[:, None] - y, axis=-1)"),
    ("scipy.stats", "", "fg.scipy.stats has distributions of the same names and methods"),
    ("scipy.linalg", "", "fg.scipy.linalg has functions of the same names, with derivatives"),
    ("scipy.special", "", "fg.scipy.special has functions of the same names, with derivatives"),
    ("scipy.fft", "", "fg.scipy.fft has functions of the same names, with derivatives"),
)
"""Rows of a package, its functions that accept only arrays (empty: all), and a replacement."""


def advice_in(rows: tuple[Row, ...], place: str, name: str) -> str:
    """Find the replacement of a name; empty without a row for it.

    >>> advice_in(NAMES, "fnp", "relu")
    'fg.nn.relu(x)'
    """
    for places, names, advice in rows:
        if place in places.split() and name in names.split():
            return advice.replace("{name}", name).replace("{function}", place)
    return ""


def nearest(name: str, names: Iterable[str]) -> str:
    """Find the name most similar to a misspelled one; empty if all differ much.

    The distance counts letters that are missing, extra, wrong or swapped with a neighbour.

    >>> nearest("vmpa", ["map", "vmap", "jvp"]), nearest("nothing", ["vmap"])
    ('vmap', '')
    """
    most = max(1, len(name) // 3)
    near = [(_edits(name.lower(), other.lower()), other) for other in names]
    count, other = min(near, default=(most + 1, ""))
    return other if count <= most else ""


def _edits(one: str, other: str) -> int:
    """The Damerau-Levenshtein distance."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        older, before, row = before, row, [i]
        for j, b in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + int(a != b)))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                row[j] = min(row[j], older[j - 2] + 1)
    return row[-1]


def advice_of_name(module: str, name: str) -> str:
    """Find the replacement of a name that a module lacks; empty if unknown."""
    advice = advice_in(NAMES, as_written(module), name)
    if advice or name.startswith("_"):
        return advice
    if hasattr(sys.modules[module], "__path__"):
        if find_spec(f"{module}.{name}"):  # a module that is being imported
            return ""
        advice = _of_a_submodule(module, name)
    return advice or _of_the_original(module, name)


def as_written(module: str) -> str:
    """A module's name as users write it.

    >>> as_written("funcgrad.numpy.linalg"), as_written("funcgrad.nn")
    ('fnp.linalg', 'fg.nn')
    """
    if module.startswith("funcgrad.numpy"):
        return module.replace("funcgrad.numpy", "fnp", 1)
    return module.replace("funcgrad", "fg", 1)


def _of_a_submodule(module: str, name: str) -> str:
    """Advice about a name that another public module of the package has."""
    package = sys.modules[module]
    for submodule in sorted(package.__all__, key=lambda submodule: submodule != "numpy"):
        value = getattr(package, submodule) if find_spec(f"{module}.{submodule}") else None
        if name in getattr(value, "__all__", ()):
            return f"it is {as_written(f'{module}.{submodule}')}.{name}"
    return ""


def _of_the_original(module: str, name: str) -> str:
    """Advice about a missing name in a module that mirrors a module of NumPy or SciPy."""
    if module.startswith("funcgrad.compat.autograd."):
        return (
            "autograd's internals are not available; rules of derivatives are declared by"
            " funcgrad.compat.autograd.extend, or by fg.custom_vjp and fg.custom_jvp"
        )
    theirs = module.removeprefix("funcgrad.")
    if not theirs.startswith(("numpy.", "scipy.")):
        return ""
    original = sys.modules.get(theirs)
    if original is not None and not hasattr(original, name):
        return ""
    close = "" if original else nearest(name, dir(sys.modules[module]))
    guess = f"did you mean {close!r}? Else, " if close else ""
    return (
        f"{guess}if {theirs} has it, call it on concrete tensors, without derivatives; fg.extend"
        " declares operations that any function may evaluate"
    )


def advice_of_call(module: str, qualified: str) -> str:
    """Find the replacement of a function of another library; empty without a row.

    >>> advice_of_call("scipy.optimize._zeros_py", "brentq")
    'scipy.optimize.brentq accepts only arrays: fg.implicit.root(f, solver).'
    """
    name = qualified.partition(".")[0]
    for package, names, advice in CALLERS:
        if f"{module}.".startswith(f"{package}.") and (not names or name in names.split()):
            path = f"{package}.{name}" if name in names.split() else package
            return f"{path} accepts only arrays: {advice}."
    return ""
