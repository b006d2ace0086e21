"""Every public name has an entry in the reference, and every exception a page."""

from __future__ import annotations

import doctest
import re
import zlib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import funcgrad as fg
from examples.docs.building import docstrings, inventories, public_names, reference
from examples.docs.building.public_names import all_entries, entries, public_modules
from tests.together import together

ENTRY = re.compile(r"^\.\. (?:auto|py:)(?:function|class|exception|data):: (\S+)$", re.MULTILINE)


@cache
def pages() -> dict[str, str]:
    """The pages, which are made in most of a second, by their names."""
    return reference.pages()


def test_every_public_name_has_one_entry() -> None:
    described = [path for text in pages().values() for path in ENTRY.findall(text)]
    names = [entry.path for entry in all_entries()]
    assert set(names) <= set(described)
    assert len(names) > 1200
    assert len(described) == len(set(described))


@together("path", public_modules())
def test_every_module_has_a_page_that_names_what_it_has(path: str) -> None:
    text = pages()[f"reference/{path}"]
    for entry in entries(public_modules()[path], path):
        assert f"<{entry.path}>`" in text


def test_titles_in_the_left_column_are_short() -> None:
    tree = re.compile(r"^   (\S.*) </(?:reference|errors)/\S+>$", re.MULTILINE)
    titles = [title for text in pages().values() for title in tree.findall(text)]
    assert {"grad", "Program", "polynomial fits", "Linear", "ShapeError"} <= set(titles)
    assert [title for title in titles if len(title) > 28 or title.startswith("funcgrad.")] == []


def test_every_exception_has_a_page() -> None:
    for name in fg.errors.__all__:
        assert f".. autoexception:: funcgrad.errors.{name}\n" in pages()[f"errors/{name}"]


def test_the_page_of_an_exception_has_an_example_and_its_repair() -> None:
    without = {name for name in fg.errors.__all__ if "This fails:" not in pages()[f"errors/{name}"]}
    others = {"FuncgradError", "MissingPackageError", "WorkerError"}
    assert without == others | {name for name in fg.errors.__all__ if name.endswith("Warning")}
    page = pages()["errors/ShapeError"]
    assert page.count(".. code-block:: python") == 2
    assert "../troubleshooting.html#shapeerror-sizes-do-not-fit" in page


def test_a_name_that_is_exported_twice_is_described_once() -> None:
    by_path = {entry.path: entry for entry in all_entries()}
    alias = by_path["funcgrad.nn.tanh"]
    assert alias.is_alias
    assert alias.canonical == "funcgrad.numpy.tanh"
    assert by_path["funcgrad.numpy.acos"].canonical == "funcgrad.numpy.arccos"
    assert not by_path["funcgrad.grad"].is_alias


@pytest.mark.slow
def test_pages_that_have_gone_are_removed_and_others_are_left_alone(tmp_path: Path) -> None:
    reference.write(tmp_path)
    page, gone = tmp_path / "errors" / "ShapeError.rst", tmp_path / "errors" / "Gone.rst"
    gone.write_text("Gone\n====\n")
    written = page.stat().st_mtime_ns
    reference.write(tmp_path)
    assert not gone.exists()
    assert page.stat().st_mtime_ns == written


@pytest.mark.parametrize("module", [docstrings, public_names])
def test_examples_of_the_generator(module: ModuleType) -> None:
    assert doctest.testmod(module).attempted > 0
    assert doctest.testmod(module).failed == 0


def test_stars_and_bars_are_escaped_outside_of_literals() -> None:
    text = "f(*args) is ``*args``, |x| and\n``a *\nb``, 2 * 3, \\*kwargs"
    assert reference.escaped(text) == (
        "f(\\*args) is ``*args``, \\|x| and\n``a *\nb``, 2 * 3, \\*kwargs"
    )


def test_inventories_say_where_others_describe_their_names(tmp_path: Path) -> None:
    mapping = inventories.write(tmp_path)
    assert set(mapping) == {"numpy", "python", "scipy"}
    data = Path(mapping["numpy"][1]).read_bytes()
    head, _, rest = data.partition(b"zlib.\n")
    assert head.startswith(b"# Sphinx inventory version 2\n# Project: numpy\n")
    lines = zlib.decompress(rest).decode().splitlines()
    svd = "numpy.linalg.svd py:function 1 reference/generated/numpy.linalg.svd.html#$ -"
    assert svd in lines
    assert "numpy.float32 py:class 1 reference/arrays.scalars.html#$ -" in lines
