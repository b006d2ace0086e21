"""Static arguments: their positions and names, and keys that tell their values apart.

>>> static_places(lambda x, n: x * n, (), ("n",)) == {1, "n"}
True
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import update_wrapper
from inspect import Parameter, signature
from typing import Any, TypeAlias

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.trace import Value
from funcgrad._programs.equation import exact_key
from funcgrad._transforms.arguments import argument_name, forgotten
from funcgrad.errors import ArgumentError
from funcgrad.tensor.tensor import wrap

Static: TypeAlias = tuple[tuple[int | str, Hashable, Any], ...]
"""Static arguments: the position or name of each, a key of its value, and the value."""


def split_static(
    function: Callable[..., Any], static: frozenset[int | str], args: Any, kwargs: Any
) -> tuple[Static, tuple[Any, Any]]:
    """Split off the static arguments: triples of position or name, exact key, and value."""
    if not static:
        return (), (args, kwargs)
    n = len(args)
    places = sorted({k % n for k in static if isinstance(k, int) and -n <= k < n})
    names = sorted([name for name in kwargs if name in static])
    statics: list[tuple[int | str, Any]] = [(place, args[place]) for place in places]
    statics += [(name, kwargs[name]) for name in names]
    keyed = tuple([(place, exact(value), value) for place, value in statics])
    try:
        hash(keyed)
    except TypeError:
        raise _unhashable(function, statics) from None
    dynamic = tuple([arg for place, arg in enumerate(args) if place not in places])
    return keyed, (dynamic, {name: kwargs[name] for name in kwargs if name not in names})


def with_static(
    values: Sequence[Value], structure: Structure, static: Static
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call, positional and named, with these leaves and the static ones."""
    dynamic, named = pytrees.unflatten(structure, [wrap(value) for value in values])
    positional = list(dynamic)
    for place, _, value in static:
        if isinstance(place, int):
            positional.insert(place, value)
        else:
            named[place] = value
    return positional, named


def same_values(values: Sequence[Value], others: Sequence[Value]) -> bool:
    """Whether raw values have the same bits."""
    pairs = zip(values, others, strict=True)
    return all(np.asarray(one).tobytes() == np.asarray(other).tobytes() for one, other in pairs)


def filled(function: Callable[..., Any], static: Static) -> Callable[..., Any]:
    """The function with its static arguments filled in; its signature lacks them."""
    if not static:
        return function
    fixed = [(place, value) for place, _, value in static if isinstance(place, int)]
    named = {place: value for place, _, value in static if isinstance(place, str)}

    def call(*dynamic: Any, **others: Any) -> Any:
        merged = list(dynamic)
        for place, value in fixed:
            merged.insert(place, value)
        return function(*merged, **others, **named)

    update_wrapper(call, function, updated=())
    with suppress(IndexError, TypeError, ValueError):  # not every function has a signature
        declared = signature(function)
        fixed_names = {*named, *[list(declared.parameters)[place] for place, _ in fixed]}
        others = [p for p in declared.parameters.values() if p.name not in fixed_names]
        call.__signature__ = declared.replace(parameters=others)  # type: ignore[attr-defined]
    return call


def within_arguments(static: Static, dynamic: object) -> list[Any]:
    """The objects that a function reaches by its arguments, besides their arrays."""
    tokens = [token for token in pytrees.structure(dynamic).tokens if token is not None]
    parts = [root for token in tokens for root in (token[0], token[2])]  # classes, static parts
    return [*[value for _, _, value in static], *parts]


def static_places(f: Callable[..., Any], numbers: object, names: object) -> frozenset[int | str]:
    """Which arguments are static, by position and by name, from the options of ``jit``."""
    numbers = _many("static_argnums", numbers, int, "positions of arguments: integers")
    names = _many("static_argnames", names, str, "names of arguments: strings")
    places: set[int | str] = {*numbers, *names}
    try:
        parameters = list(signature(f).parameters.values())
    except (TypeError, ValueError):
        return frozenset(places)
    kinds = [parameter.kind for parameter in parameters]
    called = getattr(f, "__name__", f)
    ordered = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for name in names:
        positions = [k for k, p in enumerate(ordered) if p.name == name]
        places.update(positions)
        known = any(p.name == name for p in parameters)
        if not known and Parameter.VAR_KEYWORD not in kinds:
            raise ArgumentError(f"jit: {called} has no parameter {name!r}.")
    for number in numbers:
        if 0 <= number < len(ordered):
            if ordered[number].kind is Parameter.POSITIONAL_OR_KEYWORD:
                places.add(ordered[number].name)
        elif not -len(ordered) <= number < 0 and Parameter.VAR_POSITIONAL not in kinds:
            raise ArgumentError(
                f"jit: static_argnums={number}, but {called} takes {len(ordered)} positional"
                " argument(s)."
            )
    return frozenset(places)


def _many(option: str, option_value: object, kind: type[Any], expected: str) -> tuple[Any, ...]:
    """Convert an option, which is one value or a sequence of values, to a tuple."""
    values = (
        tuple(option_value)
        if isinstance(option_value, (tuple, list, set, frozenset, range))
        else (option_value,)
    )
    if not all(isinstance(value, kind) for value in values):
        raise ArgumentError(forgotten("jit", f"{option} takes {expected}", option_value))
    return values


def hinted(message: str) -> str:
    """The error about a leaf that is not an array, with the remedy of a static argument first.

    >>> hinted("jit: mode: expected an array. Keep objects that are not arrays out...")
    "jit: mode: expected an array. Name it: jit(f, static_argnames='mode'), or static_argnums..."
    """
    place, keep, others = message.partition(" Keep objects")
    name = place.split(":")[1].strip() if keep else ""
    if not keep:
        return f"{message} Or name it in static_argnums or static_argnames."
    option = f"static_argnames={name!r}" if name.isidentifier() else "static_argnames=..."
    return f"{place} Name it: jit(f, {option}), or static_argnums=. Or keep objects{others}"


def _unhashable(
    function: Callable[..., Any], statics: Sequence[tuple[int | str, Any]]
) -> ArgumentError:
    """Make the error for static arguments that cannot be hashed."""
    called, wrong = getattr(function, "__name__", type(function).__name__), []
    for place, value in statics:
        name = place if isinstance(place, str) else argument_name(function, place)
        try:
            hash(value)
        except TypeError:
            wrong.append(f"{name} (a {type(value).__name__})")
    return ArgumentError(
        f"jit: the static argument {', '.join(wrong)} of {called} cannot be hashed: pass a tuple"
        " instead of a list or a dict. Static arguments are keys: scalars, strings, tuples,"
        " functions."
    )


def exact(value: Any) -> Hashable:
    """A key that tells a static value from every other one, down to its elements.

    ``==`` is not enough: 2 and 2.0 are equal, and so are containers of them.

    >>> exact(frozenset({2})) == exact(frozenset({2.0}))
    False
    """
    if isinstance(value, tuple):
        return type(value), tuple([exact(member) for member in value])
    if isinstance(value, frozenset):
        return type(value), frozenset([exact(member) for member in value])
    if hasattr(type(value), "__dataclass_fields__") and not isinstance(value, type):
        # Together with the value itself, whose class defines equality.
        keys = [exact(getattr(value, field.name)) for field in fields(value) if field.compare]
        return type(value), value, tuple(keys)
    return exact_key(value)


def parts_of(structure: Structure) -> Hashable:
    """Exact keys of a structure's static parts: equal structures may differ as 2 and 2.0 do.

    >>> import funcgrad as fg
    >>> one, other = fg.tree.structure({1: 0.0}), fg.tree.structure({1.0: 0.0})
    >>> one == other, parts_of(one) == parts_of(other)
    (True, False)
    """
    return tuple([exact(token[2]) for token in structure.tokens if token and token[2] is not None])
