"""Functions of flat arrays, whose derivatives and batches are functions of the same kind.

>>> bridge = FlatBridge(lambda power, values: values[0] ** power)
>>> bridge.run(3, [np.array(2.0)])
Tensor(8.0)
>>> bridge.pulled.run((3, (True,), (True,)), [np.array(2.0), np.array(1.0)])
[Tensor(12.0)]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from funcgrad._base.locks import cached_property
from funcgrad._core import pytrees
from funcgrad._core.specs import Spec, spec_of
from funcgrad._staging.jit import jit
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]


class FlatBridge:
    """A jitted function ``(static, values) -> tree`` of another library's arrays.

    Attributes
    ----------
    run : callable
        The function; its first argument is static.
    promised : callable
        ``(static argument, specs of values) -> (specs of the result, its structure)``; the function
        runs once, on ones.
    """

    def __init__(
        self,
        function: Callable[[Any, Sequence[Any]], Any],
        transposed: Callable[[], FlatBridge] | None = None,
    ) -> None:
        self._function = function
        self._transposed = transposed
        self.run: Callable[[Hashable, Sequence[Array]], Any] = jit(function, static_argnums=0)

        @cache
        def promised(
            static: Any, examples: tuple[Spec, ...]
        ) -> tuple[list[Spec], pytrees.Structure]:
            ones = [np.ones(spec.shape, spec.dtype) for spec in examples]
            leaves, form = pytrees.flatten(self.run(static, ones))
            return [spec_of(np.asarray(leaf)) for leaf in leaves], form

        self.promised = promised

    @property
    def transposed(self) -> FlatBridge:
        """Return the transpose: a bridge from cotangents to tangents, or from tangents to
        cotangents.
        """
        assert self._transposed is not None
        return self._transposed()

    @cached_property
    def pulled(self) -> FlatBridge:
        """Return the bridge ``(values, cotangents) -> cotangents`` of the differentiable values.

        Its static argument is ``(static, flags of the values, flags of the results)``; the flags
        tell which are differentiable.
        """

        def pull(static: Any, values: Sequence[Any]) -> list[Any]:
            _, inputs, seeds = self._parted(static, values)
            outs, pullback = vjp(self._of_smooth(static, values), inputs)
            (cts,) = pullback([_fitted(ct, out) for ct, out in zip(seeds, outs, strict=True)])
            return list(cts)

        return FlatBridge(pull, lambda: self.pushed)

    @cached_property
    def pushed(self) -> FlatBridge:
        """Return the bridge ``(values, tangents) -> tangents`` of the results."""

        def push(static: Any, values: Sequence[Any]) -> list[Any]:
            _, inputs, tangents = self._parted(static, values)
            fitted = [_fitted(t, x) for t, x in zip(tangents, inputs, strict=True)]
            _, moved = jvp(self._of_smooth(static, values), (inputs,), (fitted,))
            return list(moved)

        return FlatBridge(push, lambda: self.pulled)

    @cached_property
    def batched(self) -> FlatBridge:
        """Return the bridge of a batch.

        Its static argument is ``(static, flags of the values with a batch axis)``; without flags
        all values have the axis.
        """

        def batch(static: Any, values: Sequence[Any]) -> Any:
            inner, flags = static
            axes = [0 if flag else None for flag in flags or [True] * len(values)]
            return vmap(lambda values: self._function(inner, values), in_axes=(axes,))(list(values))

        return FlatBridge(batch, lambda: self.transposed.batched)

    @staticmethod
    def _parted(static: Any, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Split into all values, the differentiable values, and the tangents or cotangents."""
        _, flags, _ = static
        count = len(flags)
        smooth = [x for x, flag in zip(values[:count], flags, strict=True) if flag]
        return list(values[:count]), smooth, list(values[count:])

    def _of_smooth(self, static: Any, values: Sequence[Any]) -> Callable[[Any], list[Any]]:
        inner, flags, outs = static

        def of_smooth(moved: Sequence[Any]) -> list[Any]:
            remaining: Iterator[Any] = iter(moved)
            pairs = zip(values, flags, strict=False)
            joined = [next(remaining) if flag else x for x, flag in pairs]
            leaves = pytrees.leaves(self._function(inner, joined))
            return [leaf for leaf, flag in zip(leaves, outs, strict=True) if flag]

        return of_smooth


def _fitted(t: Tensor, x: Tensor) -> Tensor:
    """Convert a tangent or cotangent to the precision of its value."""
    return t if t.dtype == x.dtype else t.astype(x.dtype)
