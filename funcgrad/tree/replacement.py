"""Copies of trees with one place changed: ``at(tree).layers[-1].weight.set(w)``.

>>> at({"layers": [{"w": 1.0}, {"w": 2.0}]}).layers[-1].w.set(5.0)
{'layers': [{'w': 1.0}, {'w': 5.0}]}
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, TypeAlias

from funcgrad._core.pytrees import flatten, subtrees_like, unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad._transforms.arguments import is_whole, values_of
from funcgrad.errors import FunctionError, ImmutableError, TreeError
from funcgrad.tree.path_texts import no_such_path, step_text
from funcgrad.tree.pieces import Pytree, children_of, is_one_leaf, nodes

Step: TypeAlias = Any
"""A name, a key or a position."""


def at(tree: Pytree) -> TreePlace:
    """Select a place in a tree, to build a new tree with another value there.

    Parameters
    ----------
    tree : pytree
        Nested dicts, tuples, lists, named tuples and dataclasses.

    Returns
    -------
    TreePlace
        Its attributes and items are places below it. Fields and keys can be written as attributes;
        a name that is also a method has to be written in brackets.

    Examples
    --------
    >>> import funcgrad as fg
    >>> params = {"layers": [{"w": fg.tensor([1.0, 2.0]), "b": 3.0}]}
    >>> at(params).layers[0].w.multiply(2.0)
    {'layers': [{'b': 3.0, 'w': Tensor([2., 4.])}]}
    >>> at(params).layers[0].b.get()
    3.0
    >>> at(params).layer[0].b.set(0.0)
    Traceback (most recent call last):
    funcgrad.errors.TreeError: at: 'layer' matches nothing. Similar: layers...
    """
    return TreePlace(tree, ())


class TreePlace:
    """A place in a tree: the tree, and the names, keys and positions that lead to the place."""

    __slots__ = ("__steps", "__tree")  # mangled, to avoid clashes with fields

    __steps: tuple[Step, ...]
    __tree: Pytree

    def __init__(self, tree: Pytree, steps: tuple[Step, ...]) -> None:
        object.__setattr__(self, "_TreePlace__tree", tree)
        object.__setattr__(self, "_TreePlace__steps", steps)

    def __getattr__(self, name: str) -> TreePlace:
        if name.startswith("__"):  # Python asks for protocols
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: Step) -> TreePlace:
        return TreePlace(self.__tree, (*self.__steps, key))

    def __setattr__(self, name: str, value: Pytree) -> NoReturn:
        raise _assigned(f".{name}")

    def __setitem__(self, key: Step, value: Pytree) -> NoReturn:
        raise _assigned(f"[{key!r}]")

    def __iter__(self) -> NoReturn:
        raise TreeError("at: a place is not a sequence; at(tree)....get() is its value.")

    def __repr__(self) -> str:
        steps = [f".{step}" if type(step) is str else f"[{step!r}]" for step in self.__steps]
        return f"at({type(self.__tree).__name__}){''.join(steps)}"

    def get(self) -> Pytree:
        """Return the value at the place.

        Raises
        ------
        TreeError
            The place does not exist.
        """
        node = self.__tree
        for length in range(len(self.__steps)):
            steps, children, _ = children_of(node)
            node = children[self._position(node, steps, length)]
        return node

    def set(self, value: Pytree) -> Pytree:
        """Return the tree with another value at the place.

        Raises
        ------
        TreeError
            The place does not exist.
        """
        node = self.__tree
        rebuilders: list[tuple[list[Any], int, Callable[[list[Any]], Any]]] = []
        for length in range(len(self.__steps)):
            steps, children, rebuilt = children_of(node)
            position = self._position(node, steps, length)
            rebuilders.append((children, position, rebuilt))
            node = children[position]
        for children, position, rebuilt in reversed(rebuilders):
            value = rebuilt([*children[:position], value, *children[position + 1 :]])
        return value

    def apply(self, function: Callable[[Pytree], Pytree]) -> Pytree:
        """Return the tree with a function applied to the value at the place.

        Raises
        ------
        FunctionError
            The argument cannot be called.
        TreeError
            The place does not exist.
        """
        if not callable(function):
            raise FunctionError(f"at: apply expects a function, got {function!r}.")
        return self.set(function(self.get()))

    def add(self, value: ArrayLike | Pytree) -> Pytree:
        """Return the tree with a value added to each leaf at the place: a number, or a tree.

        Raises
        ------
        TreeError
            The place does not exist, or the value has another structure.
        """
        return self._with_each(lambda leaf, number: leaf + number, value, "add")

    def multiply(self, value: ArrayLike | Pytree) -> Pytree:
        """Return the tree with each leaf at the place multiplied by a number or a tree.

        Raises
        ------
        TreeError
            The place does not exist, or the value has another structure.
        """
        return self._with_each(lambda leaf, number: leaf * number, value, "multiply")

    def _with_each(self, combined: Callable[[Any, Any], Any], value: Pytree, method: str) -> Pytree:
        leaves, form = flatten(self.get())
        name = f"at: {method}: the value"
        values = [value] * len(leaves) if is_one_leaf(value) else subtrees_like(form, value, name)
        for argument, numbers in (("the place", leaves), ("the value", values)):
            values_of(f"at: {method}", numbers, form, partial(str, argument))
        return self.set(unflatten(form, list(map(combined, leaves, values))))

    def _position(self, node: Pytree, steps: list[str], length: int) -> int:
        """The index of the next step among the steps to the children of a node."""
        step = self.__steps[length]
        texts = [step_text(known) for known in steps]
        for spelled, spellings in ((f".{step}", steps), (f"[{step!r}]", steps), (str(step), texts)):
            if spelled in spellings:
                return spellings.index(spelled)
        is_position = isinstance(node, (tuple, list)) and is_whole(step)
        if is_position and -len(steps) <= step < len(steps):
            return range(len(steps))[step]
        wanted = ".".join(str(step) for step in self.__steps[: length + 1])
        if isinstance(step, str) and step in getattr(node, "__dataclass_fields__", ()):
            raise TreeError(
                f"at: {wanted!r} is static, part of the structure, and not a leaf. Apply"
                f" lambda node: dataclasses.replace(node, {step}=...) to the place above it."
            )
        raise no_such_path("at", wanted, [path for path, _ in nodes(self.__tree)])


def _assigned(step: str) -> ImmutableError:
    return ImmutableError(
        f"at: trees are immutable. at(tree)...{step}.set(value) returns a changed copy."
    )
