"""numpydoc finds nothing in a public docstring, and examples stand in those of functions."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import funcgrad as fg
from examples.docs.building.docstrings import completed
from examples.docs.building.public_names import Entry, all_entries, public_modules
from tests.together import together

docscrape = pytest.importorskip("numpydoc.docscrape")
validation = pytest.importorskip("numpydoc.validate")

LEFT_OUT = {
    "ES01": "one sentence may say all",
    "EX01": "an example may stand below the text; classes of states are shown where they are used",
    "PR03": "parameters that are explained together stand together",
    "PR04": "so do their types",
    "PR07": "a name and a type may say all",
    "RT02": "results that have names have them",
    "RT03": "the summary says what is returned",
    "SA01": "not everything has relatives",
    "SA03": "descriptions of relatives are words, not sentences",
    "SA04": "a name may say all",
    "SS02": "a formula begins with a small letter",
    "SS05": "a plural looks like a verb: Samples of ...",
}
"""Checks of numpydoc that are not for these docstrings, and why; all others are."""

SHOWN_ELSEWHERE = {
    "apply",
    "apply_several",
    "batch_along_axis",
    "batch_elementwise",
    "batch_reduction",
}
"""Parts of declarations: the module's docstring and the READMEs of packages show them."""

ENTRIES = [entry for entry in all_entries() if not entry.is_alias and entry.file]


def text_of(value: Any) -> str:
    """The docstring, without its indentation."""
    return inspect.getdoc(value) or ""


def findings(value: Any) -> Iterator[str]:
    """What numpydoc finds in the docstring that the site shows."""
    lines = completed(value, text_of(value).splitlines())
    document = docscrape.get_doc_object(value, doc="\n".join(lines))
    for code, message in validation.validate(document)["errors"]:
        is_class = code == "PR01" and inspect.isclass(value) and "Parameters" not in lines
        is_decorator = code == "PR02" and "{'cls'}" in message  # not a class's method
        if code not in LEFT_OUT and not is_class and not is_decorator:
            yield f"{code} {message}"


def test_every_check_is_one_of_numpydoc_s() -> None:
    assert set(LEFT_OUT) <= set(validation.ERROR_MSGS)
    assert len(set(validation.ERROR_MSGS) - set(LEFT_OUT)) >= 24


def test_public_names_are_found() -> None:
    paths = {entry.path for entry in ENTRIES}
    assert {"funcgrad.grad", "funcgrad.numpy.linalg.svd", "funcgrad.compat.autograd.grad"} <= paths
    assert len(paths) > 1000


@pytest.mark.parametrize("path", public_modules())
def test_nothing_is_found_in_a_docstring(path: str) -> None:
    entries = [entry for entry in ENTRIES if entry.module == path]
    found = [f"{entry.path}: {text}" for entry in entries for text in findings(entry.value)]
    assert found == []


@together("path", public_modules())
def test_a_function_has_an_example(path: str) -> None:
    functions = [entry for entry in ENTRIES if entry.module == path and entry.kind == "function"]
    lacking = {entry.name for entry in functions if ">>> " not in text_of(entry.value)}
    assert lacking <= SHOWN_ELSEWHERE


@together("path", public_modules())
def test_the_fields_of_a_class_are_described(path: str) -> None:
    classes = [entry for entry in ENTRIES if entry.module == path and entry.kind == "class"]
    assert [text for entry in classes for text in undescribed(entry)] == []


def undescribed(entry: Entry) -> Iterator[str]:
    """The public fields of a record that its docstring does not name."""
    cls, text = entry.value, text_of(entry.value)
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    names = getattr(cls, "_fields", None) or [field.name for field in fields if field.init]
    for name in names:
        if name[0] != "_" and name not in text and name != "owns":  # Elementwise describes it
            yield f"{entry.path}.{name}"


def planted(x: fg.Tensor, y: float = 1.0) -> fg.Tensor:
    """Add two numbers

    Parameters
    ----------
    x: Tensor
        the first.

    Examples
    --------
    >>> planted(1.0)
    2.0

    Returns
    -------
    Tensor
        the sum
    """
    return x + y


def test_planted_slips_are_found() -> None:
    codes = {text.split()[0] for text in findings(planted)}
    assert codes == {"SS03", "GL07", "PR01", "PR02", "PR08", "PR10", "RT04", "RT05"}


def test_a_docstring_is_completed_from_the_signature() -> None:
    text = "\n".join(completed(fg.numpy.sin, ["The sine.", "", "Examples", "--------", ">>> 1"]))
    assert text == (
        "The sine.\n\n\nParameters\n----------\nx : array_like\n\nReturns\n-------\nTensor\n\n"
        "Examples\n--------\n>>> 1"
    )


def test_results_are_completed_behind_parameters() -> None:
    lines = ["Adam.", "", "Parameters", "----------", "x : float", "", "Notes", "-----", "Text."]
    text = "\n".join(completed(fg.optim.adam, lines))
    assert "x : float\n\n\nReturns\n-------\nOptimizer[AdamState]\n\nNotes\n" in text
    assert completed(fg.optim.Optimizer, lines) == lines
