"""A call that works for every public function beside the array functions.

Functions that make functions are sampled twice: what they take, with a use of the result, and what
the result takes.

>>> sample = samples()["fg.grad"]
>>> sample.then(sample.function(*sample.args))
Tensor(12.0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.differential.file_samples import files
from tests.differential.nn_samples import layers
from tests.differential.parallel_samples import workers
from tests.differential.random_samples import distributions
from tests.differential.solver_samples import integrals, interpolations, optimizations
from tests.differential.sparse_samples import sparse_matrices
from tests.differential.working_sample import Sample
from tests.strangers.gudermannian import gudermannian

__all__ = ["Sample", "samples"]


def cube(x: Any) -> Any:
    """A function of one number."""
    return x**3


def pair(x: Any) -> Any:
    """A function with an auxiliary result."""
    return x**3, x


def total(x: Any) -> Any:
    """A function of a vector."""
    return fnp.sum(x * x)


X = fg.tensor([1.0, 2.0])
TREE = {"a": X, "b": (3.0, None)}


def _of_functions(
    function: Callable[..., Any], f: Any = cube, x: Any = 2.0, **kwargs: Any
) -> Sample:
    return Sample(function, (f,), kwargs, then=lambda made: made(x))


def transformations() -> dict[str, Sample]:
    """What takes functions: the top level."""
    made = {
        "grad": _of_functions(fg.grad),
        "value_and_grad": _of_functions(fg.value_and_grad),
        "hessian": _of_functions(fg.hessian),
        "jacfwd": _of_functions(fg.jacfwd),
        "jacrev": _of_functions(fg.jacrev),
        "jacobian": _of_functions(fg.jacobian),
        "jit": _of_functions(fg.jit),
        "vmap": _of_functions(fg.vmap, x=X),
        "checkpoint": _of_functions(fg.checkpoint),
        "program": _of_functions(fg.program),
        "hvp": Sample(fg.hvp, (total, (X,), (X,))),
        "jvp": Sample(fg.jvp, (cube, (2.0,), (1.0,))),
        "vjp": Sample(fg.vjp, (cube, 2.0), then=lambda made: made[1](1.0)),
        "linearize": Sample(fg.linearize, (cube, 2.0), then=lambda made: made[1](1.0)),
        "linear_transpose": Sample(fg.linear_transpose, (_double, X), then=lambda back: back(X)),
        "stop_gradient": Sample(fg.stop_gradient, (X,)),
        "probe": Sample(fg.probe, (X, "x")),
        "tensor": Sample(fg.tensor, ([1.0, 2.0],)),
        "pytree": Sample(fg.pytree, (type("Point", (), {}),)),
        "static_field": Sample(fg.static_field),
        "custom_jvp": Sample(fg.custom_jvp, (cube,), then=_with_rule),
        "custom_vjp": Sample(fg.custom_vjp, (cube,), then=_with_rules),
        "cond": Sample(fg.cond, (True, cube, _double, 2.0)),
        "switch": Sample(fg.switch, (1, (cube, _double), 2.0)),
        "scan": Sample(fg.scan, (_added, 0.0, X)),
        "map": Sample(fg.map, (cube, X)),
        "associative_scan": Sample(fg.associative_scan, (fnp.multiply, X)),
        "while_loop": Sample(fg.while_loop, (_is_small, _double, 1.0)),
        "odeint": Sample(fg.odeint, (_decay, 1.0, X)),
        "fori_loop": Sample(fg.fori_loop, (0, 3, _plus, 1.0)),
    }
    return {f"fg.{name}": sample for name, sample in made.items()}


def _double(x: Any) -> Any:
    return 2 * x


def _added(carry: Any, x: Any) -> Any:
    return fg.tree.map(lambda leaf: leaf + x, carry), None


def _is_small(x: Any) -> Any:
    return (x > 0.0) & (x < 10.0)


def _decay(y: Any, t: Any) -> Any:
    return fg.tree.map(lambda leaf: -leaf, y)


def _plus(i: Any, x: Any) -> Any:
    if abs(int(i)) > 100:
        raise ValueError("_plus: enough of that")  # huge bounds would take ages
    return fg.tree.map(lambda leaf: leaf + i, x)


def _push(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return x**3, 3 * x**2 * t


def _forth(x: Any) -> Any:
    return x**3, x


def _back(x: Any, cotangent: Any) -> Any:
    return (3 * x**2 * cotangent,)


def _with_rule(f: Any) -> Any:
    f.defjvp(_push)
    return fg.grad(f)(2.0)


def _with_rules(f: Any) -> Any:
    f.defvjp(_forth, _back)
    return fg.grad(f)(2.0)


def _ruled(push: Any) -> Any:
    f = fg.custom_jvp(cube)
    f.defjvp(push)
    return fg.grad(f)(2.0)


def _ruled_back(fwd: Any, bwd: Any) -> Any:
    f = fg.custom_vjp(cube)
    f.defvjp(fwd, bwd)
    return fg.grad(f)(2.0)


def made_functions() -> dict[str, Sample]:
    """What transformations make, and what it takes."""
    return {
        "grad(f)": Sample(fg.grad(total), (X,)),
        "value_and_grad(f)": Sample(fg.value_and_grad(total), (X,)),
        "hessian(f)": Sample(fg.hessian(total), (X,)),
        "jacfwd(f)": Sample(fg.jacfwd(cube), (X,)),
        "jacrev(f)": Sample(fg.jacrev(cube), (X,)),
        "jit(f)": Sample(fg.jit(cube), (X,)),
        "jit(f, static)": Sample(fg.jit(_power, static_argnums=1), (X, 2)),
        "vmap(f)": Sample(fg.vmap(cube), (X,)),
        "checkpoint(f)": Sample(fg.grad(fg.checkpoint(total)), (X,)),
        "program(f)": Sample(fg.program(cube), (X,)),
        "program(f)(x)": Sample(fg.program(cube)(X), (X,)),
        "custom_jvp(f)": Sample(_with_rule_of_its_own(), (X,)),
        "custom_vjp(f)": Sample(_with_rules_of_its_own(), (X,)),
        "custom_jvp.defjvp": Sample(_ruled, (_push,)),
        "custom_vjp.defvjp": Sample(_ruled_back, (_forth, _back)),
        "vjp(f, x)[1]": Sample(fg.vjp(cube, X)[1], (X,)),
        "linearize(f, x)[1]": Sample(fg.linearize(cube, X)[1], (X,)),
        "linear_transpose(f, x)": Sample(fg.linear_transpose(_double, X), (X,)),
        "tree.ravel(tree)[1]": Sample(fg.tree.ravel(TREE)[1], ([1.0, 2.0, 3.0],)),
    }


def _power(x: Any, n: Any) -> Any:
    return x * (2.0 if n == 2 else 3.0)


def _with_rule_of_its_own() -> Any:
    f = fg.custom_jvp(cube)
    f.defjvp(_push)
    return f


def _with_rules_of_its_own() -> Any:
    f = fg.custom_vjp(cube)
    f.defvjp(_forth, _back)
    return f


def _doubled_a(place: Any) -> Any:
    return place.a.multiply(2.0)


def trees() -> dict[str, Sample]:
    """Functions of pytrees."""
    tree = fg.tree
    form = tree.structure(TREE)
    made = {
        **{name: Sample(getattr(tree, name), (TREE,)) for name in ("flatten", "leaves")},
        **{name: Sample(getattr(tree, name), (TREE,)) for name in ("structure", "ravel")},
        "leaves_with_path": Sample(tree.leaves_with_path, (TREE,)),
        "all": Sample(tree.all, ({"a": True},)),
        "map": Sample(tree.map, (_double, TREE)),
        "map (of two)": Sample(tree.map, (_sum, TREE, TREE)),
        "map_with_path": Sample(tree.map_with_path, (_of_path, TREE)),
        "reduce": Sample(tree.reduce, (_sum, (1.0, 2.0), 3.0)),
        "transpose": Sample(tree.transpose, ((0, 0), [0, 0], ([1, 2], [3, 4]))),
        "unflatten": Sample(tree.unflatten, (form, [1.0, 2.0])),
        **{name: Sample(getattr(tree, name), (TREE,)) for name in ("norm", "count")},
        "at": Sample(tree.at, (TREE,), then=_doubled_a),
        "unstack": Sample(tree.unstack, ({"a": X},)),
        "stack": Sample(tree.stack, ([TREE, TREE],)),
        "vdot": Sample(tree.vdot, (TREE, TREE)),
        "lerp": Sample(tree.lerp, (TREE, TREE, 0.5)),
        "cast": Sample(tree.cast, (TREE, "float32")),
        "partition": Sample(tree.partition, (TREE, "a")),
        "combine": Sample(tree.combine, ({"a": X, "b": None}, {"a": None, "b": 3.0})),
        "select": Sample(tree.select, (TREE, "b")),
        "check_shared": Sample(tree.check_shared, (TREE,)),
    }
    return {f"fg.tree.{name}": sample for name, sample in made.items()}


def _sum(x: Any, y: Any) -> Any:
    return x + y


def _of_path(path: Any, x: Any) -> Any:
    return path, x


def networks() -> dict[str, Sample]:
    """Activations, losses and initializers."""
    key = fg.random.key(0)
    activations = """elu gelu leaky_relu log_sigmoid log_softmax logsumexp relu sigmoid silu softmax
        softplus swish tanh""".split()
    initializers = "glorot_normal glorot_uniform he_normal he_uniform ones zeros".split()
    made = {
        **{name: Sample(getattr(fg.nn, name), (X,)) for name in activations},
        **{name: Sample(getattr(fg.nn, name), (key, (2, 3))) for name in initializers},
        "conv": Sample(fg.nn.conv, (np.ones((1, 2, 5)), np.ones((3, 2, 2)))),
        "conv_transpose": Sample(fg.nn.conv_transpose, (np.ones((1, 2, 5)), np.ones((2, 3, 2)))),
        "max_pool": Sample(fg.nn.max_pool, (np.ones((1, 2, 5)), (2,))),
        "avg_pool": Sample(fg.nn.avg_pool, (np.ones((1, 2, 5)), (2,))),
        "adaptive_max_pool": Sample(fg.nn.adaptive_max_pool, (np.ones((1, 2, 5)), (2,))),
        "adaptive_avg_pool": Sample(fg.nn.adaptive_avg_pool, (np.ones((1, 2, 5)), (2,))),
        "cross_entropy": Sample(fg.nn.cross_entropy, ([[0.0, 1.0, 2.0]], [1])),
        "one_hot": Sample(fg.nn.one_hot, ([0, 2], 3)),
        "squared_error": Sample(fg.nn.squared_error, (X, [1.0, 3.0])),
    }
    return {f"fg.nn.{name}": sample for name, sample in made.items()}


def _steps(optimizer: Any) -> Any:
    """Two steps."""
    state = optimizer.init(TREE)
    _, state = optimizer.update(TREE, state, TREE)
    return optimizer.update(TREE, state, TREE)[0]


def _led(optimizer: Any) -> Any:
    """Two steps of an optimizer that takes arguments by name."""
    state, params = optimizer.init(TREE), TREE
    known = {"value": 1.0, "objective": _valley}
    named = {name: known[name] for name in optimizer.takes}
    for _ in range(2):
        params, state = optimizer.step(TREE, state, params, **named)
    return params


def _searched(optimizer: Any) -> Any:
    """Two steps of an optimizer that searches along lines."""
    state, params = optimizer.init(TREE), TREE
    for _ in range(2):
        params, state = optimizer.step(
            state.grads, state, params, value=state.value, objective=_valley
        )
    return params


def _valley(params: Any, *args: Any) -> Any:
    return sum((fnp.sum((x - 1.0) ** 4) for x in fg.tree.leaves(params)), 0.0)


def optimizers() -> dict[str, Sample]:
    """Optimizers, and what their functions take."""
    made = {
        name: Sample(getattr(fg.optim, name), (0.1,), then=_steps)
        for name in (
            *("adabelief", "adadelta", "adagrad", "adam", "adamax", "adamw", "lamb", "lion"),
            *("nadam", "radam", "rmsprop", "sgd", "muon", "adafactor"),
            *("optimistic_adam", "optimistic_gradient_descent", "prodigy"),
        )
    }
    for name in tuple(made):
        optimizer = getattr(fg.optim, name)(0.1)
        made[f"{name}(0.1).init"] = Sample(optimizer.init, (TREE,))
        update = partial(optimizer.update)
        made[f"{name}(0.1).update"] = Sample(update, (TREE, optimizer.init(TREE), TREE))
    made["sgd (momentum)"] = Sample(fg.optim.sgd, (0.1, 0.9, True), then=_steps)
    changes = {
        "clip": (1.0,),
        "clip_by_norm": (1.0,),
        "scale": (0.5,),
        "add_weight_decay": (0.1,),
        "centralize": (),
        "freeze": ("a",),
        "trace": (0.9,),
        "ema": (0.9,),
        "noise": (0.01, 0.5, fg.random.key(0)),
    }
    for name, args in changes.items():
        made[name] = Sample(getattr(fg.optim, name), args, then=_steps)
    for name in ("average_params", "lookahead", "schedule_free"):
        made[name] = Sample(getattr(fg.optim, name), (fg.optim.sgd(0.1),), then=_steps)
    made["apply_if_finite"] = Sample(fg.optim.apply_if_finite, (fg.optim.sgd(0.1), 3), then=_steps)
    made["sam"] = Sample(fg.optim.sam, (fg.optim.sgd(0.1),), then=_led)
    made["reduce_on_plateau"] = Sample(fg.optim.reduce_on_plateau, (), then=_led)
    averaged = fg.optim.average_params(fg.optim.sgd(0.1))
    made["MuonDimensionNumbers"] = Sample(fg.optim.MuonDimensionNumbers, ())
    made["eval_params"] = Sample(fg.optim.eval_params, (averaged.init(TREE), TREE))
    made["lbfgs"] = Sample(fg.optim.lbfgs, (), then=_searched)
    made["lbfgs().init"] = Sample(fg.optim.lbfgs().init, (TREE,))
    made["chain"] = Sample(fg.optim.chain, (fg.optim.sgd(0.1), fg.optim.adam(0.1)), then=_steps)
    made["accumulate"] = Sample(fg.optim.accumulate, (fg.optim.sgd(0.1), 2), then=_steps)
    made["partition"] = Sample(fg.optim.partition, ({"*": fg.optim.sgd(0.1)},), then=_steps)
    made["minimize"] = Sample(
        fg.optim.minimize, (_valley, TREE, fg.optim.sgd(0.1)), {"max_steps": 2, "tol": 1e-3}
    )
    made["apply_updates"] = Sample(fg.optim.apply_updates, (TREE, TREE))
    return {f"fg.optim.{name}": sample for name, sample in made.items()}


def projections() -> dict[str, Sample]:
    """Projections, each with the scale 1."""
    spaces = fg.optim.projections
    names = "hypercube l1_ball l1_sphere l2_ball l2_sphere linf_ball simplex"
    made = {name: Sample(getattr(spaces, name), (TREE, 1.0)) for name in names.split()}
    made["box"] = Sample(spaces.box, (TREE, 0.0, {"a": 1.0, "b": (2.0, None)}))
    made["non_negative"] = Sample(spaces.non_negative, (TREE,))
    return {f"fg.optim.projections.{name}": sample for name, sample in made.items()}


def proximal() -> dict[str, Sample]:
    """Proximal operators, and their solver."""
    prox, square = fg.optim.prox, lambda x, *args: (x - 2.0) ** 2
    made = {name: Sample(getattr(prox, name), (TREE, 1.0)) for name in ("group", "l1", "simplex")}
    made["box"] = Sample(prox.box, (TREE, 0.0, {"a": 1.0, "b": (2.0, None)}))
    made["nuclear"] = Sample(prox.nuclear, (np.diag([3.0, 1.0]), 0.5))
    made["total_variation"] = Sample(prox.total_variation, (np.array([0.0, 1.0, 3.0]), 0.5))
    solver = Sample(fg.optim.proximal_gradient, (square, 0.5, prox.l1), {"maxiter": 50})
    named = {f"fg.optim.prox.{name}": sample for name, sample in made.items()}
    return named | {"fg.optim.proximal_gradient": solver}


def _tried(f: Callable[..., Any]) -> None:
    fg.testing.check_grads(f, (2.0,), order=1)


def checks() -> dict[str, Sample]:
    """The checks of derivatives, operations and backends."""
    return {
        "fg.testing.check_backend": Sample(
            fg.testing.check_backend, ("numpy",), {"kinds": ("guards",)}
        ),
        "fg.testing.check_grads": Sample(fg.testing.check_grads, (cube, (2.0,)), {"order": 1}),
        "fg.testing.check_jvp": Sample(fg.testing.check_jvp, (cube, (2.0,))),
        "fg.testing.check_primitive": Sample(fg.testing.check_primitive, (gudermannian,)),
        "fg.testing.check_vjp": Sample(fg.testing.check_vjp, (cube, (2.0,))),
        "fg.testing.assert_trees_close": Sample(fg.testing.assert_trees_close, (TREE, TREE)),
        "fg.testing.away_from_kinks": Sample(fg.testing.away_from_kinks, (cube, 2.0)),
        "fg.testing.check_layer": Sample(
            fg.testing.check_layer, (fg.nn.Linear(fg.tensor([[1.0], [2.0]]), None), np.ones(2))
        ),
        "fg.testing.check_optimizer": Sample(fg.testing.check_optimizer, (fg.optim.sgd(0.1),)),
        "fg.testing.validated": Sample(fg.testing.validated, ()),
        "fg.devices": Sample(fg.devices, ()),
        "fg.get": Sample(fg.get, (TREE,)),
        "fg.put": Sample(fg.put, (TREE, "cpu")),
        "fg.testing.holds": Sample(
            fg.testing.holds, (fg.testing.laws.pure,), {"at": fg.testing.strategies.tensors()}
        ),
        "fg.testing.max_variants": Sample(fg.testing.max_variants, (fg.jit(cube), 1)),
        "fg.testing.would_notice": Sample(fg.testing.would_notice, (_tried, cube, 2.0)),
        "fg.debug.check": Sample(fg.debug.check, (True, "it holds")),
        "fg.debug.conventions": Sample(fg.debug.conventions, (cube, 2.0)),
        "fg.debug.digits": Sample(fg.debug.digits, (cube,), then=lambda counted: counted(X)),
        "fg.debug.nans": Sample(fg.debug.nans, (cube,), then=lambda watched: watched(X)),
        "fg.debug.paths": Sample(fg.debug.paths, (cube,), then=lambda traced: traced(X)),
        "fg.debug.print": Sample(fg.debug.print, ("x is {}", 2.0)),
        "fg.debug.called_back": Sample(fg.debug.called_back, ()),
        "fg.debug.raise_nans": Sample(fg.debug.raise_nans, ()),
    }


def solutions() -> dict[str, Sample]:
    """What solves equations, and what it makes."""
    own, sparse = fg.implicit, fg.scipy.sparse.linalg
    spaced = {"maxiter": 20}
    made = {
        "fg.custom_linear_solve": Sample(
            fg.custom_linear_solve, (_double, X, own.dense_solve, own.dense_solve, False, False)
        ),
        "fg.custom_root": Sample(fg.custom_root, (_off, X, _last, own.dense_solve, False)),
        "fg.fixed_point": Sample(fg.fixed_point, (_nearer, X), {"tol": 1e-6, "max_steps": 50}),
        "fg.implicit.dense_solve": Sample(own.dense_solve, (_double, X)),
        "fg.implicit.direct_solve": Sample(own.direct_solve, (_double, X)),
        **{
            f"fg.implicit.{name}": Sample(
                getattr(own, name), (f, _last, own.dense_solve), then=lambda made: made(X)
            )
            for name, f in (
                *[("root", _off), ("fixed_point", _nearer), ("least_squares", _off)],
                ("minimize", total),
            )
        },
        "fg.implicit.root(f)": Sample(own.root(_off, _last), (X,)),
    }
    for name in ("cg", "gmres", "bicgstab"):
        method = getattr(sparse, name)
        made[f"fg.scipy.sparse.linalg.{name}"] = Sample(method, ([[2.0, 1.0], [1.0, 3.0]], X))
        made[f"fg.implicit.{name}"] = Sample(method, (_double, X, X), {**spaced, "M": _double})
    return made


def _off(x: Any) -> Any:
    return x - 1.0


def _last(f: Any, x: Any) -> Any:
    return x


def _nearer(x: Any) -> Any:
    return x / 2.0 + 1.0


def bridges() -> dict[str, Sample]:
    """Functions that other libraries call."""
    return {
        "fg.interop.flat": Sample(
            fg.interop.flat,
            (lambda tree: fnp.sum(tree["x"] ** 2), {"x": np.ones(2)}),
            {},
            lambda made: made.value_and_grad(np.ones(2)),
        )
    }


def samples() -> dict[str, Sample]:
    """All of them, by the names that users write."""
    families: Sequence[Callable[[], dict[str, Sample]]] = (
        *[transformations, made_functions, trees, networks, optimizers, distributions, checks],
        *[solutions, files, layers, projections, proximal, workers, bridges, sparse_matrices],
        *[optimizations, integrals, interpolations],
    )
    return {name: sample for family in families for name, sample in family().items()}
