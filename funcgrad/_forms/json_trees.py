"""Write the structures of trees as JSON, and read them: a list with an entry for each token.

A leaf is ``"*"``, None is ``null``. A container is an object with its kind and a length or keys,
which tell how many of the following entries it contains.

>>> from funcgrad._core.pytrees import structure
>>> tree_data(structure({"a": (1.0, None), "b": [2.0]}), "here")
[{'dict': ['a', 'b']}, {'tuple': 2}, '*', None, {'list': 1}, '*']
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Any, Final

from funcgrad._core.pytrees import Structure, structure
from funcgrad._forms.json_values import Data, from_data, listed, named, read, reference_to, to_data
from funcgrad.errors import ProgramError, TreeError

_LEAF: Final = "*"
_SEQUENCES: Final[Mapping[str, type[Any]]] = MappingProxyType({"tuple": tuple, "list": list})
_MAPPINGS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {"dict": dict, "OrderedDict": OrderedDict}
)
_KINDS: Final = frozenset({*_SEQUENCES, *_MAPPINGS, "record", "class"})


def tree_data(tree: Structure, place: str) -> Data:
    """Write a structure as JSON.

    Raises
    ------
    ProgramError
        A class is not defined at the top level of a module, or a static part cannot be written.
    """
    return [_LEAF if token is None else _node_data(*token, place) for token in tree.tokens]


def _node_data(kind: type[Any], size: int, aux: Any, place: str) -> Data:
    if kind is NoneType:
        return None
    if kind in _SEQUENCES.values():
        return {kind.__name__: size}
    if kind in _MAPPINGS.values():
        return {kind.__name__: [to_data(key, f"{place}, key {key!r}") for key in aux]}
    reference = reference_to(kind, place)
    place = f"{place}, {kind.__qualname__}"
    if hasattr(kind, "__tree_flatten__"):
        return {"class": reference, "children": size, "aux": to_data(aux, place)}
    static = {name: to_data(value, f"{place}.{name}") for name, _, value in aux.static}
    return {"record": reference, "fields": list(aux.names), "static": static}


def structure_of(document: Data, name: str, place: str) -> Structure:
    """Read a structure from an entry of a document.

    Raises
    ------
    ProgramError
        The entry is not a structure, or its classes are missing, or their fields have changed.
    """
    place = f"{place}, {name}"
    tokens = [
        None if data == _LEAF else _node(data, place) for data in read(document, name, list, place)
    ]
    missing = 1
    for token in tokens:
        if not missing:
            raise ProgramError(f"{place}: there is more than one tree.")
        missing += -1 if token is None else token[1] - 1
    if missing:
        raise ProgramError(f"{place}: the end of the tree is missing.")
    return Structure(tuple(tokens))


def _node(data: Data, place: str) -> Any:
    if data is None:
        return NoneType, 0, None
    if type(data) is not dict or not _KINDS & data.keys():
        raise ProgramError(f"{place}: {data!r} is neither a leaf nor a container.")
    for name, kind in _SEQUENCES.items():
        if name in data:
            return kind, _length(data, name, place), None
    for name, kind in _MAPPINGS.items():
        if name in data:
            keys = from_data(read(data, name, list, place), place)
            if len({_hashed(key, place) for key in keys}) < len(keys):
                raise ProgramError(f"{place}: a dict has a key twice in {keys!r}.")
            return kind, len(keys), keys
    if "record" in data:
        return _record(data, place)
    kind = _class(data, "class", place)
    if not (hasattr(kind, "__tree_flatten__") and hasattr(kind, "__tree_unflatten__")):
        raise ProgramError(f"{place}: {kind.__qualname__} has no __tree_flatten__ (now).")
    if "aux" not in data:
        raise ProgramError(f"{place}, {kind.__qualname__}: 'aux' is missing.")
    return kind, _length(data, "children", place), _hashed(from_data(data["aux"], place), place)


def _length(data: Data, name: str, place: str) -> int:
    length: int = read(data, name, int, place)
    if length < 0:
        raise ProgramError(f"{place}: {name!r} is {length}, not a length.")
    return length


def _hashed(value: object, place: str) -> Hashable:
    try:
        hash(value)
    except TypeError as error:  # a slice has no hash before Python 3.12
        raise ProgramError(f"{place}: {value!r} cannot be a part of a tree: {error}.") from None
    return value


def _class(data: Data, name: str, place: str) -> type[Any]:
    kind = named(read(data, name, str, place), place)
    if not isinstance(kind, type):
        raise ProgramError(f"{place}: {data[name]} is not a class.")
    return kind


def _record(data: Data, place: str) -> Any:
    """The node of a named tuple or dataclass, taken from an instance of the current class."""
    kind = _class(data, "record", place)
    place = f"{place}, {kind.__qualname__}"
    if hasattr(kind, "__tree_flatten__"):
        raise ProgramError(f"{place}: the class now has its own __tree_flatten__.")
    names = listed(data, "fields", str, place)
    static = {
        name: from_data(value, f"{place}.{name}")
        for name, value in read(data, "static", dict, place).items()
    }
    try:
        now = structure(_example(kind, names, static)).tokens[0]
    except (AttributeError, TypeError, TreeError) as error:
        raise ProgramError(f"{place}: the class has other fields now: {error}.") from None
    if now is None or _fields_of(now[2]) != (names, tuple(static)):
        raise ProgramError(
            f"{place}: the class had the fields {names} and the static fields {tuple(static)} when"
            " the program was saved, and has others now, or is not a pytree any more."
        )
    return now


def _example(kind: type[Any], names: Sequence[str], static: Mapping[str, Any]) -> Any:
    """Make an instance with leaves as children, without running the class's code."""
    if issubclass(kind, tuple):
        return tuple.__new__(kind, [0] * len(names))
    example = object.__new__(kind)
    for name, value in {**dict.fromkeys(names, 0), **static}.items():
        object.__setattr__(example, name, value)
    return example


def _fields_of(aux: Any) -> tuple[Any, Any]:
    """The names of the fields and of the static fields of a named tuple or dataclass."""
    return aux.names, tuple([name for name, _, _ in aux.static])
