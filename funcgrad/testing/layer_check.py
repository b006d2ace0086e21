"""``check_layer``: check a layer of your own like the package's layers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import is_inexact
from funcgrad.errors import ArgumentError, CheckError
from funcgrad.tensor.tensor import Tensor
from funcgrad.testing.gradients import check_grads
from funcgrad.testing.laws.derivative_laws import modes_agree
from funcgrad.testing.laws.transformation_laws import dtype_kept, jit_is_eager, pure, vmap_is_loop
from funcgrad.testing.subject import Pytree
from funcgrad.testing.suites import Promise, run_suite
from funcgrad.testing.tree_closeness import assert_trees_close


def check_layer(
    layer: Pytree,
    *inputs: Pytree,
    apply: Callable[..., Any] | None = None,
    without: Collection[str] = (),
) -> None:
    """Check that a layer is a pytree of parameters and a pure, differentiable function.

    Use it in the tests of a layer that you write. The package's own layers pass the same checks.

    Parameters
    ----------
    layer : pytree
        The layer, such as a frozen dataclass made by ``fg.pytree``.
    *inputs : pytrees
        The arguments of a call.
    apply : callable, optional
        ``(layer, *inputs) -> result``; by default a call. For layers with states or keys pass
        ``apply=lambda layer, x: layer(x, key=key)``.
    without : collection of str
        The names of promises to skip, as in the report.

    Raises
    ------
    CheckError
        A promise is broken (an ``AssertionError``). The message lists all broken promises: ``tree``
        (parameters are tensors, and flattening can be undone), ``pure``, ``modes`` and
        ``derivative`` (forward = reverse = numerical, to second order, with respect to parameters
        and inputs), ``jit``, ``vmap`` (ensembles of layers, batches of inputs), ``dtypes`` (float32
        stays), ``pickled``.
    ArgumentError
        ``layer`` cannot be called, or a name in ``without`` is unknown.

    Examples
    --------
    >>> import funcgrad as fg
    >>> x = fg.tensor([0.5, 1.25, 1.75])
    >>> check_layer(fg.nn.Linear.init(fg.random.key(0), 3, 2), x)

    >>> @fg.pytree
    ... class Wide:
    ...     weight: fg.Tensor
    ...     def __call__(self, x):
    ...         return self.weight * x + fg.numpy.ones(3)
    >>> check_layer(Wide(x), x, without=("pickled",))
    Traceback (most recent call last):
        ...
    funcgrad.errors.CheckError: check_layer: Wide breaks 1 of 7 promises.
    <BLANKLINE>
    dtypes: Results and gradients have the precision of parameters and inputs.
      laws.dtype_kept: Wide does not keep float32.
    ...
    """
    title = type(layer).__name__
    if apply is None and not callable(layer):
        raise ArgumentError(
            f"check_layer: a {title} cannot be called. Pass apply=, a function of the layer and its"
            " inputs."
        )

    def called(layer: Pytree, *inputs: Pytree) -> Any:
        return layer(*inputs) if apply is None else apply(layer, *inputs)

    called.__name__ = title
    args = (layer, *inputs)
    promises = [
        Promise(
            "tree", "Parameters are tensors, and flattening can be undone.", lambda: _tree(layer)
        ),
        Promise(
            "pure",
            "A call changes nothing, and returns the same bits again.",
            lambda: pure(called, args),
        ),
        Promise("pickled", "A copy by pickle returns the same.", lambda: _pickled(called, args)),
    ]
    if any(is_inexact(np.asarray(leaf).dtype) for leaf in pytrees.leaves(args)):
        promises += [
            Promise("modes", "Forward and reverse mode agree.", lambda: modes_agree(called, args)),
            Promise(
                "derivative",
                "First and second derivatives agree with numerical ones.",
                lambda: check_grads(called, args),
            ),
            Promise(
                "jit",
                "A jitted call returns the results of the eager call.",
                lambda: jit_is_eager(called, args),
            ),
            Promise(
                "vmap",
                "A batch of layers and inputs agrees with a loop over them.",
                lambda: vmap_is_loop(called, args),
            ),
            Promise(
                "dtypes",
                "Results and gradients have the precision of parameters and inputs.",
                lambda: dtype_kept(called, args),
            ),
        ]
    run_suite("check_layer", title, promises, without)


def _tree(layer: Pytree) -> None:
    leaves, structure = pytrees.flatten(layer)
    for path, leaf in zip(structure.paths(), leaves, strict=True):
        if not isinstance(leaf, Tensor):
            raise CheckError(
                f"the layer{path} is a {type(leaf).__name__}, not a tensor. Convert parameters by"
                " fg.tensor, and declare options as fg.static_field()."
            )
    again = pytrees.unflatten(structure, leaves)
    if type(again) is not type(layer) or pytrees.structure(again) != structure:
        raise CheckError(f"the tree is put together as {pytrees.structure(again)}, not {structure}")


def _pickled(called: Callable[..., Any], args: tuple[Any, ...]) -> None:
    layer, *inputs = args
    again = pickle.loads(pickle.dumps(layer))
    assert_trees_close(called(again, *inputs), called(*args), 0.0)
