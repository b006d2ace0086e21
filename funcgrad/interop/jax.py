"""Functions of funcgrad in JAX, and JAX's in funcgrad.

>>> import pytest
>>> jax = pytest.importorskip("jax")
>>> import funcgrad.numpy as fnp
>>> cubes = wrap(lambda x: fnp.sum(x**3))
>>> jax.jit(jax.grad(cubes))(jax.numpy.array([1.0, 2.0])).tolist()
[3.0, 12.0]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import Spec, is_inexact
from funcgrad._hints.optional_packages import optional_package
from funcgrad._transforms.arguments import check_function
from funcgrad.extend import ForeignFunction
from funcgrad.interop.flat_bridge import FlatBridge
from funcgrad.interop.lifted_functions import ArrayLibrary, lifted

__all__ = ["lift", "wrap"]


def _jax() -> Any:
    return optional_package("jax", "interop.jax: jax or its jaxlib is not installed")


def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of funcgrad one of JAX's.

    Parameters
    ----------
    f : callable
        Takes pytrees of tensors and returns one. It is jitted.

    Returns
    -------
    callable
        A function of trees of JAX's arrays, under ``jax.jit``, ``grad``, ``jvp``, ``vmap`` and all
        that is made of these, at every order. Compiled code calls back to Python
        (``jax.pure_callback``), on the CPU. Where JAX has no float64, results are rounded to
        float32.

    Raises
    ------
    MissingPackageError
        JAX is not installed.

    Examples
    --------
    >>> import pytest
    >>> jax = pytest.importorskip("jax")
    >>> cube = wrap(lambda x: x**3)
    >>> float(jax.grad(jax.grad(cube))(2.0)), jax.vmap(jax.jit(cube))(np.ones(2)).tolist()
    (12.0, [1.0, 1.0])
    """
    check_function("interop.jax.wrap", f)
    jax = _jax()
    primitive = _primitive(jax)
    name = getattr(f, "__name__", type(f).__name__)
    bridge = FlatBridge(lambda form, values: f(*pytrees.unflatten(form, values)))

    def wrapped(*args: Any) -> Any:
        leaves, form = pytrees.flatten(args)
        arrays = [jax.numpy.asarray(leaf) for leaf in leaves]
        _, result = _promised(jax, bridge, form, arrays)
        outs = primitive.bind(*arrays, bridge=bridge, static=form, linear=0)
        return pytrees.unflatten(result, outs)

    wrapped.__name__ = name
    wrapped.__doc__ = f.__doc__
    return wrapped


def _promised(
    jax: Any, bridge: FlatBridge, static: Any, arrays: Sequence[Any]
) -> tuple[list[Any], pytrees.Structure]:
    """The specs and the tree of a bridge's result, in dtypes that JAX has."""
    examples = tuple([Spec(tuple(x.shape), np.dtype(x.dtype)) for x in arrays])
    with jax.ensure_compile_time_eval():  # so that arrays on XLA's devices are not traced
        specs, form = bridge.promised(static, examples)
    as_jax = jax.dtypes.canonicalize_dtype
    return [jax.ShapeDtypeStruct(spec.shape, as_jax(spec.dtype)) for spec in specs], form


def _primitive(jax: Any) -> Any:
    """JAX's operation that runs bridges; its last ``linear`` operands are tangents."""
    from jax.extend.core import Primitive
    from jax.interpreters import mlir

    primitive: Any = Primitive("funcgrad")
    primitive.multiple_results = True

    def call(*args: Any, bridge: FlatBridge, static: Any, linear: int) -> Any:
        specs, _ = _promised(jax, bridge, static, args)

        def run(*arrays: Any) -> Any:
            outs = pytrees.leaves(bridge.run(static, [np.array(x) for x in arrays]))
            return [np.asarray(out, spec.dtype) for out, spec in zip(outs, specs, strict=True)]

        return jax.pure_callback(run, specs, *args, vmap_method="sequential")

    def abstract(*avals: Any, bridge: FlatBridge, static: Any, linear: int) -> Any:
        specs, _ = _promised(jax, bridge, static, avals)
        return [jax.core.ShapedArray(spec.shape, spec.dtype) for spec in specs]

    primitive.def_impl(call)
    primitive.def_abstract_eval(abstract)
    mlir.register_lowering(primitive, mlir.lower_fun(call, multiple_results=True))
    _register_rules(jax, primitive)
    return primitive


def _register_rules(jax: Any, primitive: Any) -> None:
    """Tell JAX how the operation is differentiated, transposed and batched: as bridges again."""
    from jax.interpreters import ad, batching

    def push(primals: Any, tangents: Any, *, bridge: FlatBridge, static: Any, linear: int) -> Any:
        outs = primitive.bind(*primals, bridge=bridge, static=static, linear=linear)
        flags = tuple([is_inexact(x.dtype) for x in primals])
        smooth = tuple([is_inexact(out.dtype) for out in outs])
        moved = [
            jax.numpy.zeros_like(x) if type(t) is ad.Zero else t
            for x, t, flag in zip(primals, tangents, flags, strict=True)
            if flag
        ]
        pushed = primitive.bind(
            *primals,
            *moved,
            bridge=bridge.pushed,
            static=(static, flags, smooth),
            linear=len(moved),
        )
        remaining = iter(pushed)
        return outs, [
            next(remaining) if flag else ad.Zero(jax.typeof(out).to_tangent_aval())
            for out, flag in zip(outs, smooth, strict=True)
        ]

    def transpose(cts: Any, *args: Any, bridge: FlatBridge, static: Any, linear: int) -> Any:
        count = len(args) - linear
        specs, _ = _promised(jax, bridge, static, [getattr(x, "aval", x) for x in args])
        seeds = [
            jax.numpy.zeros(spec.shape, spec.dtype) if type(ct) is ad.Zero else ct
            for ct, spec in zip(cts, specs, strict=True)
        ]
        pulled = primitive.bind(
            *args[:count],
            *map(jax.numpy.conj, seeds),  # JAX's transposes do not conjugate, and ours do
            bridge=bridge.transposed,
            static=static,
            linear=len(seeds),
        )
        return [*[None] * count, *map(jax.numpy.conj, pulled)]

    def batch(args: Any, dims: Any, *, bridge: FlatBridge, static: Any, linear: int) -> Any:
        pairs = list(zip(args, dims, strict=True))
        size = next(x.shape[dim] for x, dim in pairs if dim is not None)
        moved = [
            jax.numpy.broadcast_to(x, (size, *x.shape))
            if dim is None
            else jax.numpy.moveaxis(x, dim, 0)
            for x, dim in pairs
        ]
        outs = primitive.bind(*moved, bridge=bridge.batched, static=(static, ()), linear=linear)
        return outs, [0] * len(outs)

    ad.primitive_jvps[primitive] = push
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch


def lift(function: Callable[..., Any]) -> ForeignFunction:
    """Make a function of JAX an operation of funcgrad.

    Parameters
    ----------
    function : callable
        Takes JAX's arrays, in pytrees, and returns such a tree; ``jax.jit`` compiles it. Parameters
        of a model are an argument, as in Flax and Equinox.

    Returns
    -------
    ForeignFunction
        The same on tensors of funcgrad, with derivatives of every order in both modes by JAX,
        batched by ``jax.vmap``, staged as one operation. It is computed with float64 in JAX
        (``jax.enable_x64``), whatever JAX's setting is elsewhere.

    Raises
    ------
    MissingPackageError
        JAX is not installed.

    Examples
    --------
    >>> import pytest
    >>> jax = pytest.importorskip("jax")
    >>> import funcgrad as fg
    >>> erf = lift(jax.scipy.special.erf)
    >>> fg.jit(fg.grad(fg.grad(erf)))(0.5)
    Tensor(-0.87878258)
    """
    check_function("interop.jax.lift", function)
    name = getattr(function, "__name__", type(function).__name__)
    return lifted(_library(_jax()), function, name)


def _library(jax: Any) -> ArrayLibrary:
    def on_arrays(run: Any) -> Any:
        compiled = jax.jit(run)

        def called(*args: Any) -> Any:
            with jax.enable_x64(True):
                return pytrees.map(np.asarray, compiled(*args))

        return called

    def result(function: Any) -> Any:
        def specs(*args: Any) -> Any:
            shapes = pytrees.map(
                lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), args, is_leaf=_is_spec
            )
            with jax.enable_x64(True):
                out = jax.eval_shape(function, *shapes)
            return pytrees.map(lambda x: Spec(tuple(x.shape), np.dtype(x.dtype)), out)

        return specs

    return ArrayLibrary(
        on_arrays,
        result,
        jvp=jax.jvp,
        vjp=jax.vjp,
        vmap=jax.vmap,
        is_smooth=lambda x: is_inexact(x.dtype),
        conj=jax.numpy.conj,
    )


def _is_spec(x: object) -> bool:
    return isinstance(x, Spec)


__dir__ = __all__.copy  # completion shows the public names, without the modules
