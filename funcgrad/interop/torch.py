"""Functions of funcgrad in PyTorch, and PyTorch's in funcgrad.

>>> import pytest
>>> torch = pytest.importorskip("torch")
>>> import funcgrad.numpy as fnp
>>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
>>> wrap(lambda x: fnp.sum(x**3))(x).backward()
>>> x.grad
tensor([ 3., 12.], dtype=torch.float64)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import Spec
from funcgrad._hints.optional_packages import optional_package
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import LeafError
from funcgrad.interop.flat_bridge import FlatBridge
from funcgrad.interop.lifted_functions import ArrayLibrary, lifted
from funcgrad.tensor.tensor import tensor

__all__ = ["lift", "wrap"]


def _torch() -> Any:
    return optional_package("torch", "interop.torch: PyTorch is not installed")


def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of funcgrad one of PyTorch's.

    Parameters
    ----------
    f : callable
        Takes pytrees of tensors and returns one. It is jitted.

    Returns
    -------
    callable
        A function of trees of torch tensors and numbers, with ``backward`` of every order, forward
        mode (``torch.func.jvp``, ``torch.autograd.forward_ad``) and ``torch.func.vmap``. Numbers
        are constants, so pass what often changes as a tensor. Results are on the device of the
        first tensor; funcgrad computes on the CPU. Tensors are copied both ways, since PyTorch may
        write to its own.

    Raises
    ------
    MissingPackageError
        PyTorch is not installed.
    LeafError
        At a call, an argument has no tensor, or a leaf that is neither a tensor nor a number.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> cube = wrap(lambda x: x**3)
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> (gradient,) = torch.autograd.grad(cube(x), x, create_graph=True)
    >>> gradient.backward()
    >>> gradient.item(), x.grad.item()
    (12.0, 12.0)
    """
    check_function("interop.torch.wrap", f)
    torch = _torch()
    function = _function_class(torch)
    name = getattr(f, "__name__", type(f).__name__)

    def run(static: Any, values: Sequence[Any]) -> Any:
        form, constants = static
        remaining = iter(values)
        leaves = [next(remaining) if number is None else number for number in constants]
        return f(*pytrees.unflatten(form, leaves))

    bridge = FlatBridge(run)

    def wrapped(*args: Any) -> Any:
        leaves, form = pytrees.flatten(args)
        for leaf, path in zip(leaves, form.paths(), strict=True):
            if not isinstance(leaf, torch.Tensor | bool | int | float | complex):
                raise LeafError(
                    f"interop.torch {name}: arguments{path} is of type {type(leaf).__name__}; it"
                    " has to be a torch tensor or a number."
                )
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not tensors:
            raise LeafError(f"interop.torch {name}: there is no tensor among the arguments.")
        constants = tuple([None if isinstance(x, torch.Tensor) else x for x in leaves])
        shown: list[pytrees.Structure] = []
        outs = function.apply(bridge, (form, constants), shown.append, *tensors)
        return pytrees.unflatten(shown[-1], outs)

    wrapped.__name__ = name
    wrapped.__doc__ = f.__doc__
    return wrapped


def _function_class(torch: Any) -> Any:
    """The torch function that runs bridges; its derivatives and batches are bridges again."""

    def ours(x: Any) -> Any:
        return np.array(x.detach().resolve_conj().resolve_neg().cpu().numpy())

    class Bridged(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(bridge: Any, static: Any, show: Any, *tensors: Any) -> Any:
            leaves, form = pytrees.flatten(bridge.run(static, [ours(x) for x in tensors]))
            show(form)
            place = tensors[0].device
            return tuple([torch.from_numpy(np.array(leaf)).to(place) for leaf in leaves])

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.bridge, ctx.static, _, *tensors = inputs
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            ctx.smooth = tuple([_is_smooth(out) for out in output])
            fixed = [out for out, flag in zip(output, ctx.smooth, strict=True) if not flag]
            ctx.mark_non_differentiable(*fixed)

        @staticmethod
        def backward(ctx: Any, *cts: Any) -> Any:
            tensors = ctx.saved_tensors
            flags = tuple([_is_smooth(x) for x in tensors])
            seeds = [ct for ct, flag in zip(cts, ctx.smooth, strict=True) if flag]
            static = (ctx.static, flags, ctx.smooth)
            pulled = Bridged.apply(ctx.bridge.pulled, static, _unused, *tensors, *seeds)
            remaining = iter(pulled)
            return (None, None, None, *[next(remaining) if flag else None for flag in flags])

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            tensors = ctx.saved_tensors
            flags = tuple([_is_smooth(x) for x in tensors])
            directions = [
                torch.zeros_like(x) if t is None else t
                for x, t, flag in zip(tensors, tangents[3:], flags, strict=True)
                if flag
            ]
            static = (ctx.static, flags, ctx.smooth)
            pushed = Bridged.apply(ctx.bridge.pushed, static, _unused, *tensors, *directions)
            remaining = iter(pushed)
            return tuple([next(remaining) if flag else None for flag in ctx.smooth])

        @staticmethod
        def vmap(
            info: Any, in_dims: Any, bridge: Any, static: Any, show: Any, *tensors: Any
        ) -> Any:
            dims = in_dims[3:]
            moved = [
                x if dim is None else x.movedim(dim, 0)
                for x, dim in zip(tensors, dims, strict=True)
            ]
            flags = tuple([dim is not None for dim in dims])
            outs = Bridged.apply(bridge.batched, (static, flags), show, *moved)
            return outs, (0,) * len(outs)

    return Bridged


def _unused(form: pytrees.Structure) -> None:
    """Take the structure of a result that is a list anyway."""


def lift(function: Any) -> Any:
    """Make a function or a module of PyTorch an operation of funcgrad.

    Parameters
    ----------
    function : callable or torch.nn.Module
        Takes torch tensors, in pytrees, and returns such a tree. It depends on its arguments alone,
        and changes nothing: a module is in ``eval()`` mode if it has dropout or batch norm.

    Returns
    -------
    callable
        For a function: the same on tensors of funcgrad, with derivatives of every order in both
        modes by ``torch.func``, batched by ``torch.func.vmap``, staged as one operation.
        For a module: a pair ``(apply, params)``, where ``apply(params, *args)`` runs the module
        with these parameters, and ``params`` is a dict of its parameters by name, as tensors.
        Buffers are constants.

    Raises
    ------
    MissingPackageError
        PyTorch is not installed.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> import funcgrad as fg
    >>> erf = lift(torch.erf)
    >>> fg.jit(fg.grad(fg.grad(erf)))(0.5)
    Tensor(-0.87878258)
    """
    torch = _torch()
    if not isinstance(function, torch.nn.Module):
        check_function("interop.torch.lift", function)
        name = getattr(function, "__name__", type(function).__name__)
        return lifted(_library(torch), function, name)
    module = function
    state = {name: x.detach().numpy() for name, x in module.named_parameters()}

    def call(params: Any, *args: Any) -> Any:
        return torch.func.functional_call(module, params, args)

    params = {name: tensor(x) for name, x in state.items()}
    return lifted(_library(torch), call, type(module).__name__), params


def _library(torch: Any) -> ArrayLibrary:
    def theirs(x: Any) -> Any:
        return torch.from_numpy(np.array(x))

    def on_arrays(run: Any) -> Any:
        def called(*args: Any) -> Any:
            with torch.no_grad():
                out = run(*pytrees.map(theirs, args))
            return pytrees.map(lambda x: x.detach().numpy(), out)

        return called

    def result(function: Any) -> Any:
        @cache
        def specs_of(form: pytrees.Structure, specs: tuple[Spec, ...]) -> Any:
            args = pytrees.unflatten(form, [np.ones(spec.shape, spec.dtype) for spec in specs])
            return pytrees.map(lambda x: Spec(x.shape, x.dtype), on_arrays(function)(*args))

        def specs(*args: Any) -> Any:
            leaves, form = pytrees.flatten(args, lambda x: isinstance(x, Spec))
            return specs_of(form, tuple(leaves))

        return specs

    return ArrayLibrary(
        on_arrays,
        result,
        jvp=torch.func.jvp,
        vjp=torch.func.vjp,
        vmap=torch.func.vmap,
        is_smooth=_is_smooth,
        conj=lambda x: x,  # PyTorch's cotangents are ours
    )


def _is_smooth(x: Any) -> bool:
    return bool(x.is_floating_point() or x.is_complex())


__dir__ = __all__.copy  # completion shows the public names, without the modules
