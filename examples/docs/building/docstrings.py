r"""Docstrings as the site shows them: with the parameters and the result of every function.

Most functions of arrays have one sentence and an example. The sections ``Parameters`` and
``Returns`` are made from their signature, as ``help`` shows it.

>>> import funcgrad as fg
>>> print("\n".join(completed(fg.numpy.sin, ["The sine."])[2:5]))
Parameters
----------
x : array_like
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

WORDS = {
    r"(?:builtins|collections\.abc|funcgrad\.trees|np|typing)\.(\w+)": r"\1",
    r"ArrayLike|AnyNumber": "array_like",
    r"DTypeLike": "dtype",
    r"Pytree|Tree|State|Primal": "pytree",
    r"ShapeLike": "int or tuple of int",
    r"AxisLike": "int, tuple of int or None",
    r"SupportsIndex": "int",
    r"(?:Parametric)?Function\[.*\]|Callable\[.*\]|Function|Callable": "callable",
    r"Any|object|T": "object",
    r"Raw|Value": "array_like",
    r"Shape": "tuple of int",
    r"Sizes": "int or sequence of int",
    r"Sequence\[(\w+)\]": r"sequence of \1",
    r"Iterable\[(\w+)\]": r"iterable of \1",
    r"list\[(\w+)\]": r"list of \1",
    r"tuple\[(\w+), \.\.\.\]": r"tuple of \1",
}
"""Annotations, in the words of docstrings."""


def completed(value: Any, lines: list[str]) -> list[str]:
    """Add the sections of parameters and results that a function's docstring has not.

    Parameters
    ----------
    value : object
    lines : list of str
        Its docstring.

    Returns
    -------
    list of str
    """
    sections = list(_sections(lines))
    names = [name for name, _ in sections]
    if not inspect.isroutine(value):
        return lines
    added = [] if "Parameters" in names else list(_parameters(value))
    if not {"Returns", "Yields"} & {*names}:
        added += _returns(value)
    places = [number for name, number in sections if name not in _PARAMETERS]
    place = places[0] if places else len(lines)
    return [*lines[:place], "", *added, *lines[place:]] if added else lines


_PARAMETERS = ("Parameters", "Other Parameters")


def _sections(lines: list[str]) -> Iterator[tuple[str, int]]:
    """The sections' names, and the lines on which they begin."""
    for number, line in enumerate(lines[1:]):
        if line and set(line.strip()) == {"-"}:
            yield lines[number].strip(), number


def _parameters(value: Any) -> Iterator[str]:
    parameters = inspect.signature(value).parameters.values()
    if parameters:
        yield from ("Parameters", "----------")
    for parameter in parameters:
        name = str(parameter).split(":")[0].split("=")[0]  # with its stars
        yield f"{name} : {_words(parameter.annotation)}"
    yield ""


def _returns(value: Any) -> list[str]:
    annotation = inspect.signature(value).return_annotation
    if annotation in (inspect.Signature.empty, None, "None"):
        return []
    return ["Returns", "-------", _words(annotation), ""]


def _words(annotation: Any) -> str:
    """An annotation in the words of docstrings."""
    if annotation is inspect.Parameter.empty:
        return "object"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for pattern, word in WORDS.items():
        text = re.sub(rf"\b(?:{pattern})(?!\w)", word, text)
    is_optional = text.endswith(" | None")
    text = text.removesuffix(" | None").replace(" | ", " or ")
    return f"{text}, optional" if is_optional else text
