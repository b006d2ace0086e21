"""Hints for calls with wrong arguments: other libraries' options, and missing arguments.

This file is loaded only after such a mistake.

>>> advice_in(OPTIONS, "adam", "lr")
'learning_rate='
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from types import MappingProxyType
from typing import Final

from funcgrad._hints.other_libraries import advice_in, nearest
from funcgrad._hints.training_names import ONLY_OPTIMIZERS, Row
from funcgrad.errors import MissingOptionError

_NEEDLESS: Final = "leave it out"
_UNMARKED: Final = "the call selects the arguments to differentiate: fg.grad(f, argnums=...)(x)"

_FFTS: Final = "fft ifft rfft irfft hfft ihfft"
_FFTS_OF_AXES: Final = "fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn"

OPTIONS: Final[tuple[Row, ...]] = (
    # Transformations.
    (
        "grad value_and_grad jacfwd jacrev hessian",
        "allow_int",
        "integers have no derivative: x.astype(float)",
    ),
    ("grad value_and_grad jacfwd jacrev hessian", "argnum wrt", "argnums= takes the positions"),
    ("grad value_and_grad", "argnames", "argnums= takes the positions; give arguments by position"),
    (
        "grad value_and_grad vjp jvp jacfwd jacrev hessian hvp",
        "create_graph retain_graph",
        "every derivative can be differentiated again; leave it out",
    ),
    ("jvp vjp hvp", "holomorphic", "a tangent is any direction in the complex plane; leave it out"),
    ("grad value_and_grad", "reduce_axes", "named axes are not supported; leave it out"),
    ("jacfwd jacrev hessian", "vectorize strategy chunk_size", _NEEDLESS),
    ("vmap", "in_dims", "in_axes="),
    ("vmap", "out_dims", "out_axes="),
    ("vmap", "randomness", "give each example its own key: fg.vmap(f)(fg.random.split(key, n))"),
    (
        "vmap",
        "axis_name spmd_axis_name",
        "named axes are not supported: sum the result of fg.vmap(f) over the batch",
    ),
    ("vmap", "chunk_size", "fg.map(f, xs, batch_size=...) processes a batch in pieces"),
    ("jit", "donate_argnums donate_argnames", "memory is used again without it; leave it out"),
    ("jit", "inline keep_unused fullgraph dynamic mode", _NEEDLESS),
    ("jit", "nopython cache nogil", _NEEDLESS),
    ("jit", "parallel", _NEEDLESS),
    ("jit", "fastmath", "relaxed=True allows rewrites that change the last digits"),
    (
        "checkpoint",
        "policy",
        'save=("h",) keeps the values that the function names with fg.probe(value, "h"); else the'
        " whole function is computed again",
    ),
    (
        "checkpoint",
        "prevent_cse concrete static_argnums use_reentrant",
        "the whole function is computed again; leave it out",
    ),
    ("custom_vjp custom_jvp", "nondiff_argnames", "nondiff_argnums= says the positions"),
    ("linearize", "has_aux", "fg.jvp(f, primals, tangents, has_aux=True) returns auxiliary values"),
    # Control flow.
    ("cond", "operand operands", "by position: fg.cond(pred, true_fun, false_fun, *operands)"),
    ("cond", "true_fn then_fn", "true_fun="),
    ("cond", "false_fn else_fn", "false_fun="),
    ("switch", "operand operands", "by position: fg.switch(index, branches, *operands)"),
    ("scan", "_split_transpose", _NEEDLESS),
    ("scan", "fn body", "f="),
    ("while_loop", "cond", "cond_fun="),
    ("while_loop fori_loop", "body", "body_fun="),
    ("while_loop fori_loop", "init val", "init_val="),
    ("while_loop fori_loop", "unroll", "unrolling makes loops no faster; leave it out"),
    ("while_loop", "max_steps", "checkpoints= bounds the memory; the steps are not bounded"),
    # Differential equations.
    ("odeint", "t_eval t t_span", "ts= takes the times, beginning with the time of y0"),
    ("odeint", "args", "by position: fg.odeint(func, y0, ts, *args)"),
    ("odeint", "mxstep", "max_steps="),
    ("odeint", "max_step", "hmax="),
    (
        "odeint",
        "hmin h0 first_step method solver options",
        "the method is fixed: leave it out, or use fg.integrate.solve_ivp",
    ),
    ("odeint", "tfirst", "func is called as func(y, t, *args); leave it out"),
    ("odeint", "fun f", "func="),
    ("odeint", "full_output dense_output", "ts= takes all times of results; leave it out"),
    ("odeint", "events", "fg.integrate.solve_ivp(..., events=)"),
    ("odeint", "jac Dfun", "the method needs no Jacobian; leave it out"),
    # Solutions of equations, integrals.
    ("root_scalar", "fprime fprime2", "the derivative is found by itself; leave it out"),
    ("root_scalar", "options", "xtol=, rtol= and maxiter= are arguments"),
    (
        "minimize_scalar",
        "bracket",
        "bounds=(lower, upper) encloses the minimum; fg.scipy.optimize has SciPy's methods",
    ),
    ("minimize_scalar", "method", "it is SciPy's bounded method; leave it out"),
    ("minimize_scalar", "tol", "xtol="),
    ("minimize_scalar", "options", "xtol= and maxiter= are arguments"),
    ("cg bicgstab gmres", "callback callback_type", _NEEDLESS),
    ("quad", "complex_func", "complex integrands are recognized; leave it out"),
    ("quad", "wopts maxp1 limlst", _NEEDLESS),
    ("nquad", "full_output", "the result has the estimate of the error; leave it out"),
    # Optimizers.
    (
        "adam adamw sgd muon adafactor rmsprop adagrad adadelta nadam radam adamax adabelief lion"
        " lamb",
        "lr step_size",
        "learning_rate=",
    ),
    ("muon", "momentum mu", "beta="),
    ("muon", "ns_coefficients", "ns_coeffs="),
    ("muon", "adjust_lr_fn", "consistent_rms=0.2, or None"),
    ("adafactor", "beta2_decay", "decay_rate="),
    ("adafactor", "d clip_threshold", "clipping_threshold="),
    ("adafactor", "weight_decay", "weight_decay_rate="),
    ("lookahead", "fast_optimizer base_optimizer", "optimizer="),
    ("lookahead", "k", "sync_period="),
    ("lookahead", "alpha", "slow_step_size="),
    ("sam schedule_free", "base_optimizer", "optimizer="),
    ("sam", "adv_optimizer", "rho="),
    ("sam", "opaque_mode reset_state", "a step is one call with objective=; leave it out"),
    ("apply_if_finite", "inner", "optimizer="),
    ("reduce_on_plateau", "threshold", "rtol= or atol="),
    ("reduce_on_plateau", "mode", "smaller values are better: pass value=-score"),
    ("reduce_on_plateau", "min_lr", "min_scale=, a fraction of the learning rate"),
    ("noise", "seed", "key=fg.random.key(seed)"),
    ("adam adamw", "betas", "b1= and b2="),
    ("adam adamw", "beta1 beta_1", "b1="),
    ("adam adamw", "beta2 beta_2", "b2="),
    ("adam adamw", "epsilon", "eps="),
    ("adam", "weight_decay", "fg.optim.adamw(learning_rate, weight_decay=...)"),
    (
        "sgd",
        "weight_decay",
        "add weight_decay * params to the gradients: fg.tree.map(lambda g, p: g + decay * p, grads,"
        " params)",
    ),
    ("adam adamw", "nesterov mu_dtype", ONLY_OPTIMIZERS),
    ("lbfgs", "history_size maxcor m", "memory_size="),
    ("lbfgs", "max_eval maxls", "max_linesearch_steps="),
    ("lbfgs", "lr learning_rate line_search_fn linesearch", "its line search finds the rate"),
    (
        "lbfgs",
        "max_iter maxiter tolerance_grad tolerance_change gtol ftol tol",
        "an optimizer takes one step; call it in fg.while_loop until state.grads is small",
    ),
    ("sgd", "dampening", "momentum= adds up undamped gradients; scale learning_rate instead"),
    ("adam adamw sgd", "maximize", "the gradient of -f descends where f grows"),
    ("adam adamw sgd", "foreach fused capturable differentiable", _NEEDLESS),
    (
        "adam adamw sgd",
        "params",
        "an optimizer holds no parameters: state = optimizer.init(params), and then"
        " optimizer.update(grads, state, params)",
    ),
    # Networks.
    ("conv conv_transpose", "strides window_strides", "stride="),
    ("conv conv_transpose", "dilations rhs_dilation kernel_dilation", "dilation="),
    ("conv", "lhs_dilation input_dilation", "fg.nn.conv_transpose(x, kernel, stride=...)"),
    ("conv conv_transpose", "feature_group_count", "groups="),
    ("conv conv_transpose", "weight filters", "kernel="),
    ("conv conv_transpose", "kernel_size", "the shape of the kernel array determines it"),
    (
        "conv conv_transpose",
        "data_format dimension_numbers",
        "x is (batch, channels, *sizes): fnp.moveaxis(x, -1, 1) where the channels come last",
    ),
    (
        "conv conv_transpose",
        "padding_mode",
        'fnp.pad(x, widths, mode="wrap") first, as the layer nn.Conv with padding_mode= does',
    ),
    ("attention", "dropout_p dropout", "dropout_rate= and dropout_key="),
    ("max_pool avg_pool", "kernel_size window_shape pool_size window_dimensions", "window="),
    ("max_pool avg_pool", "strides window_strides", "stride="),
    ("max_pool avg_pool", "ceil_mode return_indices", _NEEDLESS),
    ("avg_pool", "divisor_override", "avg_pool(x, window) * (window size / divisor)"),
    ("adaptive_avg_pool adaptive_max_pool", "output_shape target_shape", "output_size="),
    ("softmax log_softmax cross_entropy one_hot", "dim", "axis="),
    ("softmax log_softmax", "where", "fnp.where(mask, x, -fnp.inf), which has the probability 0"),
    ("cross_entropy", "reduction", "fnp.mean(fg.nn.cross_entropy(logits, labels))"),
    ("cross_entropy", "weight", "losses = fg.nn.cross_entropy(...) times the weights"),
    ("cross_entropy", "ignore_index", "where=labels >= 0, and then .mean(where=labels >= 0)"),
    ("cross_entropy", "label_smoothing alpha", "smoothing="),
    ("cross_entropy", "target", "labels="),
    (
        "sigmoid_binary_cross_entropy sigmoid_focal_loss softmax_focal_loss hinge_loss"
        " squared_error huber_loss log_cosh kl_divergence cosine_similarity triplet_margin_loss"
        " dice_loss ctc_loss ntxent",
        "reduction",
        "the loss is returned per example: .mean(), or .mean(where=mask)",
    ),
    ("sigmoid_binary_cross_entropy sigmoid_focal_loss", "targets", "labels="),
    ("squared_error huber_loss log_cosh dice_loss", "input", "predictions="),
    ("squared_error huber_loss log_cosh dice_loss kl_divergence", "target", "targets="),
    ("kl_divergence", "input", "log_predictions="),
    ("cosine_similarity cosine_distance", "dim", "axis="),
    ("cosine_similarity cosine_distance", "eps epsilon", _NEEDLESS),
    ("triplet_margin_loss", "p", "norm_degree="),
    ("triplet_margin_loss", "eps", _NEEDLESS),
    ("ctc_loss", "logit_paddings", "logit_lengths=fnp.sum(1 - paddings, axis=-1).astype(int)"),
    ("ctc_loss", "label_paddings", "label_lengths=fnp.sum(1 - paddings, axis=-1).astype(int)"),
    ("ctc_loss", "input_lengths", "logit_lengths="),
    ("ctc_loss", "target_lengths", "label_lengths="),
    ("ctc_loss", "blank", "blank_id="),
    ("ctc_loss", "zero_infinity", "fnp.where(loss < fnp.inf, loss, 0)"),
    ("ctc_loss", "log_epsilon", _NEEDLESS),
    ("dice_loss", "apply_softmax", "predictions are probabilities, such as fg.nn.softmax(logits)"),
    ("leaky_relu", "alpha slope", "negative_slope="),
    (
        "BatchNorm Dropout MultiHeadAttention Residual Sequential TransformerBlock",
        "training train is_training inference deterministic use_running_average",
        "y, state = layer.train(x, state) is the call in training, layer(x, state) afterwards",
    ),
    # Functions of arrays.
    ("var std", "unbiased", "ddof=1 divides by n - 1, and ddof=0, the default, by n"),
    ("sort argsort", "key", "fnp.argsort(keys) are positions: x[fnp.argsort(keys)]"),
    ("zeros ones full eye arange", "requires_grad", _UNMARKED),
    ("zeros ones", "size", "shape="),
    ("full", "size", "shape="),
    ("full", "value", "fill_value="),
    ("concatenate stack", "tensors", "arrays are the first argument, a sequence"),
    ("norm", "p", "ord="),
    (f"{_FFTS} {_FFTS_OF_AXES}", "x", "a="),
    (f"{_FFTS} {_FFTS_OF_AXES}", "overwrite_x workers plan", _NEEDLESS),
    ("logm sqrtm funm", "disp", "failed='nan' gives NaN instead of an error"),
    # Random numbers.
    ("normal gumbel", "mean mu", "loc="),
    ("normal gumbel", "std stddev sigma", "scale="),
    ("uniform", "low a", "minval="),
    ("uniform", "high b", "maxval="),
    ("randint", "low", "minval="),
    ("randint", "high", "maxval="),
    (
        "bernoulli categorical choice exponential gumbel normal randint uniform truncated_normal"
        " bits"
        " beta binomial cauchy chisquare dirichlet gamma geometric laplace loggamma logistic"
        " lognormal multinomial multivariate_normal orthogonal pareto poisson rademacher rayleigh"
        " t weibull",
        "size",
        "shape=",
    ),
    (
        "bernoulli categorical choice exponential gumbel normal permutation randint uniform"
        " truncated_normal bits"
        " beta binomial cauchy chisquare dirichlet gamma geometric laplace loggamma logistic"
        " lognormal multinomial multivariate_normal orthogonal pareto poisson rademacher rayleigh"
        " t weibull",
        "seed rng generator random_state",
        "the first argument is a key, made by fg.random.key(seed)",
    ),
    # Tensors.
    ("tensor", "requires_grad", _UNMARKED),
    ("tensor", "device pin_memory", "tensors are in main memory, like NumPy arrays; leave it out"),
    ("tensor", "copy", "writable memory is copied, read-only memory is shared; leave it out"),
    ("tensor", "order", "NumPy accepts any layout; leave it out"),
    ("tensor", "ndmin", "fnp.array(x, ndmin=...)"),
)
"""Rows of functions, options that they lack, and replacements."""

MISSING: Final[tuple[Row, ...]] = (
    (
        "jacfwd jacrev hessian",
        "f",
        "a decorator with options is written @functools.partial(fg.{function}, option=...), after"
        " import functools",
    ),
    (
        "update",
        "params",
        "updates, state = optimizer.update(grads, state, params): decay, and the dtypes of the"
        " updates, depend on the parameters",
    ),
    (
        "bernoulli categorical choice exponential gumbel normal permutation randint uniform"
        " truncated_normal bits split fold_in",
        "key",
        "the first argument is a key, made by fg.random.key(seed)",
    ),
    (
        "step",
        "params",
        "params, state = optimizer.step(grads, state, params) returns the new parameters",
    ),
    ("adam adamw sgd", "learning_rate", "no default fits every problem; try 1e-3"),
)
"""Rows of functions, an argument that they need, and advice."""


_SYNONYMS: Final = MappingProxyType(
    {"dim": "axis", "dims": "axis", "keepdim": "keepdims", "axes": "axis", "axis": "axes"}
)
"""PyTorch's names of options that many functions have."""

_NUMPYS: Final = MappingProxyType(
    {
        "out": "tensors never change, so take the result that the function returns",
        **dict.fromkeys(("casting", "like", "order", "overwrite_input", "subok"), _NEEDLESS),
    }
)
"""NumPy's options that say where and how the elements of a result lie in memory."""


def missing_option(function: str, options: Sequence[str], option: str) -> TypeError:
    """The error for an option that a function lacks, given its options."""
    advice = advice_in(OPTIONS, function.rpartition(".")[2], option) or _NUMPYS.get(option, "")
    if not advice:
        synonym = _SYNONYMS.get(option, "")
        close = synonym if synonym in options else nearest(option, options)
        advice = f"{close}= is one" if close else f"the arguments are {', '.join(options)}"
    return MissingOptionError(f"{function} has no option {option}: {advice}.")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 40 and "\n" not in text else "..."


def refusal(
    function: Callable[..., object],
    name: str,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    error: TypeError,
) -> TypeError:
    """The error for a call that does not fit a function's parameters."""
    parameters = dict(signature(function).parameters)
    if parameters.pop("self", None):
        if function.__name__ == "__init__":  # inherited by a subclass
            name = type(args[0]).__name__
        args = args[1:]
    if parameters.pop("cls", None):
        owner, first = args[0], next(iter(parameters))
        name, args = f"{getattr(owner, '__name__', owner)}.{name}", args[1:]
        has_key = "key" in kwargs or hasattr(args[0] if args else None, "dtype")
        if first == "key" and not has_key and {*kwargs} <= {*parameters}:
            shown = ", ".join(
                [*map(_shown, args), *[f"{option}={_shown(kwargs[option])}" for option in kwargs]]
            )
            return MissingOptionError(
                f"{name}: the first argument is a key: {name}(fg.random.key(seed), {shown})."
            )
    options = [
        declared.name
        for declared in parameters.values()
        if declared.kind is not declared.VAR_POSITIONAL
    ]
    for option in kwargs:
        if option not in options:
            return missing_option(name, options, option)
    for place, parameter in enumerate(parameters):
        advice = advice_in(MISSING, name.rpartition(".")[2], parameter)
        if advice and place >= len(args) and parameter not in kwargs:
            return MissingOptionError(f"{name}: the argument {parameter} is missing: {advice}.")
    reason = str(error).partition("() ")[2] or str(error)
    if reason.endswith("multiple values for argument 'executor'"):
        reason += f", and the data follow in a second call: parallel.{name}(..., executor)(...)"
    return MissingOptionError(f"{name}: {reason}; the arguments are {', '.join(parameters)}.")
