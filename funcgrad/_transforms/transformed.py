"""Functions that transformations return: objects that other processes can get.

Such a function is pickled by its name, if a module has it under that name, else as the call of the
transformation that made it. What pickles the user's function, pickles its gradient: ``pickle`` if
the function can be imported, cloudpickle in any case.

>>> import pickle
>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> slope = fg.grad(fnp.sin)
>>> pickle.loads(pickle.dumps(slope))(0.0)
Tensor(1.0)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import update_wrapper
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from funcgrad._base.users_line import shorten
from funcgrad._core.pytrees import Structure, unflatten
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Value
from funcgrad._hooks.result_watch import WATCH, WATCHING
from funcgrad._programs.equation import exact_key
from funcgrad._transforms.arguments import like
from funcgrad.errors import ProgramError
from funcgrad.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from funcgrad._programs.program import Program

P = ParamSpec("P")
R = TypeVar("R")
LinearRun = Callable[[list[Value]], list[Value]]
"""From the leaves of tangents or cotangents to the leaves of results; None is an absent leaf."""


def importable_name(function: Callable[..., object]) -> str:
    """The name by which to pickle a function that its own module has under that name; or nothing.

    Cloudpickle sends the functions of a script by value, since the other process has no such
    script; so names of ``__main__`` are only for ``pickle``.
    """
    resolved: Any = sys.modules.get(function.__module__)
    name: str = function.__qualname__
    for attribute in name.split("."):
        resolved = getattr(resolved, attribute, None)
    if resolved is not function or (function.__module__ == "__main__" and _goes_by_value()):
        return ""
    return name


def _goes_by_value() -> bool:
    """Whether the pickler that asks for a name is cloudpickle's, or joblib's copy of it."""
    return "cloudpickle" in sys._getframe(3).f_globals.get("__name__", "")


class Transformed(Generic[P, R]):
    """A function that a transformation made of another one.

    Parameters
    ----------
    call : callable
        What the function does.
    operation : str
        The name of the transformation.
    made : tuple of callable and tuple
        The call that makes this function; its first argument is the user's function.
    """

    __slots__ = ("__dict__", "__weakref__", "_call", "_made", "_operation")

    def __init__(
        self, call: Callable[P, R], operation: str, made: tuple[Callable[..., Any], tuple[Any, ...]]
    ) -> None:
        self._call, self._operation, self._made = call, operation, made
        self._describe(made[1][0])

    def _describe(self, function: Callable[..., Any]) -> None:
        update_wrapper(self._call, function, ("__name__",), ())  # for messages about its results
        update_wrapper(self, function)
        self.__name__: str = getattr(function, "__name__", type(function).__name__)
        self.__qualname__: str = getattr(function, "__qualname__", self.__name__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(*args, **kwargs)

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        """Bind to an instance, so that a transformed function in a class is a method."""
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        return importable_name(self) or self._made

    def __repr__(self) -> str:
        return f"{self._operation}({self.__wrapped__!r})"  # type: ignore[attr-defined]  # update_wrapper sets it


class Watched(Transformed[P, R]):
    """One whose results ``fg.debug`` looks at, where it is in effect."""

    __slots__ = ()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if not WATCHING.begun or (watch := WATCH.get()) is None:
                return self._call(*args, **kwargs)
            return watch.called(self._operation, self._call, args, kwargs)
        except Exception as error:
            shorten(error)
            raise


class LinearForm:
    """A linear map without its residuals; equal for maps that were made by the same operations.

    It is compared by one key, whose hash is computed once: jitted functions compare it at each
    call, and keys of all equations take a thousand times as long.
    """

    __slots__ = ("_hash", "_key", "code", "trees")

    def __init__(self, code: Program, trees: tuple[Any, ...]) -> None:
        self.code, self.trees = code, trees
        operation, argument, structure, specs, result, several = trees
        exact_trees = exact_key((structure.tokens, result.tokens))
        self._key = operation, argument, code, specs, several, exact_trees
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearForm) and (self is other or self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return LinearForm, (self.code, self.trees)

    def __repr__(self) -> str:
        return f"<linear form {self.trees[0]} {self.code}>"


class LinearMap(Watched[..., Any]):
    """A pullback, or another linear function of trees: a tree itself, of the values that it reads.

    Two maps that were made by the same operations have the same structure. So jitted functions take
    and return them, and ``vmap`` batches them. It is pickled as a program and its residuals.

    Parameters
    ----------
    operation : str
        The name that errors begin with, and their name for the argument.
    run : callable
        The function of leaves.
    structure : Structure
        Of the argument, or of the tuple of all arguments if there are ``several``.
    specs : sequence of Spec
        Shapes and dtypes of its leaves.
    result : Structure
        Of the result.
    """

    __slots__ = ("_form", "_parts", "_residuals", "_run")

    def __init__(
        self,
        operation: str,
        argument: str,
        run: LinearRun,
        structure: Structure,
        specs: Sequence[Spec],
        result: Structure,
        several: bool = False,
    ) -> None:
        self._operation, self._run = operation, run
        self._parts = (operation, argument, structure, tuple(specs), result, several)
        self._form: LinearForm | None = None
        self._residuals: Sequence[Any] = ()

        def pull(ct: object) -> Any:
            leaves = run(like(operation, argument, ct, structure, specs))
            return unflatten(result, [wrap(leaf) for leaf in leaves])

        def push(*tangents: object) -> Any:
            return pull(tangents)

        self._call: Callable[..., Any] = push if several else pull
        self._call.__name__ = operation
        update_wrapper(self, self._call)
        self.__qualname__ = operation

    def __tree_flatten__(self) -> tuple[Sequence[Any], LinearForm]:
        """The residuals, and the map without them: its program, and the trees that it is for."""
        if self._form is None:
            from funcgrad._transforms.linear_code import linear_code

            code, residuals = linear_code(self._operation, self._run, self._parts[3])
            self._residuals = [wrap(residual) for residual in residuals]
            self._form = LinearForm(code, self._parts)
        return self._residuals, self._form

    @classmethod
    def __tree_unflatten__(cls, aux: LinearForm, children: Sequence[Any]) -> LinearMap:
        """The map with other residuals."""
        from funcgrad._transforms.linear_code import run_of

        operation, argument, *trees = aux.trees
        made = cls(operation, argument, run_of(operation, aux.code, children), *trees)
        made._form, made._residuals = aux, children
        return made

    def __reduce__(self) -> Any:
        residuals, aux = self.__tree_flatten__()
        for residual in residuals:
            trace = residual._trace if isinstance(residual, Tensor) else None
            if trace is not None and not trace.is_remote:
                raise ProgramError(
                    f"{self._operation}: one of its residuals belongs to a transformation that runs"
                    " around it, so its value cannot be saved. Return the residuals, which are the"
                    " leaves of its tree, or make it outside of that transformation."
                )
        return LinearMap.__tree_unflatten__, (aux, residuals)

    def __repr__(self) -> str:
        return f"<linear function {self._operation}>"
