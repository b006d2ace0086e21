"""The pages of the reference, from the public names: a Sphinx extension that writes them.

A module of many names has one page for each file that defines some of them. Each exception has a
page of its own, ``errors/<name>``. Obsolete pages are removed; unchanged pages are not written, so
that Sphinx reads them once.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from sys import modules
from textwrap import indent
from types import ModuleType
from typing import TYPE_CHECKING, Any

import funcgrad
from examples.docs.building import written_pages
from examples.docs.building.docstrings import completed
from examples.docs.building.example_imports import with_imports
from examples.docs.building.public_names import Entry, all_entries, entries, public_modules

if TYPE_CHECKING:
    from sphinx.application import Sphinx

TROUBLESHOOTING = Path(__file__).parents[1] / "troubleshooting.md"

_CELL = re.compile(r"(?ms)^```\{code-cell\}\n(?::[^\n]*\n)*(.*?)^```$")

FOLDERS = ("reference", "errors")
"""Folders of the site's source that hold nothing else than these pages."""

MOST_ON_ONE_PAGE = 60
"""A module of more names is divided."""

CLASSES_APART = ("funcgrad.nn",)
"""Modules in which a class has a page of its own. (The states of optimizers are beside them.)"""

WORDS = {
    "complex": "funcgrad.value_and_grad",
    "nan": "funcgrad.debug.nans",
    "seed": "funcgrad.random.key",
}
"""Words that users search for, and the names that they mean."""

INTRODUCTION = """
Reference
=========

Every public name, from the docstrings. NumPy's and SciPy's functions have their names, their
arguments and their defaults; an entry describes differences, and the derivative where a function
is not smooth.

.. toctree::
   :hidden:

{documents}

.. list-table::
   :widths: 30 70

{rows}
"""


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx write the pages before it looks for pages."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir)))
    app.connect("autodoc-process-docstring", _prepare, priority=1)  # before numpydoc reads it
    app.connect("autodoc-skip-member", _skipped)
    return {"parallel_read_safe": True}


def _skipped(
    _app: Sphinx, _what: str, _name: str, member: Any, _skip: bool, _options: Any
) -> bool | None:
    """Skip members that another package adds to a class, such as scikit-learn to estimators."""
    home = str(getattr(member, "__module__", None) or "builtins").partition(".")[0]
    return None if home in ("builtins", "funcgrad") else True


def _prepare(
    _app: Sphinx, _what: str, _name: str, value: Any, _options: Any, lines: list[str]
) -> None:
    """Complete a docstring; escape literal stars and bars before its examples (``*args``)."""
    lines[:] = with_imports(value, completed(value, lines))
    end = lines.index("Examples") if "Examples" in lines else len(lines)
    lines[:end] = escaped("\n".join(lines[:end])).split("\n")


def escaped(text: str) -> str:
    """Escape stars and bars outside of literals, which would begin emphases and substitutions."""
    parts = text.split("``")
    parts[::2] = [re.sub(r"(?<![\\\w*])\*(?=\w)|\|(?=\S)", r"\\\g<0>", part) for part in parts[::2]]
    return "``".join(parts)


def write(folder: Path) -> None:
    """Write the pages into the folders of the site's source, and remove those that have gone."""
    texts = {folder / f"{document}.rst": text for document, text in pages().items()}
    written_pages.replace([folder / name for name in FOLDERS], texts)


def pages() -> dict[str, str]:
    """The texts of all pages, by their documents' names."""
    made: dict[str, str] = {}
    for path, module in public_modules().items():
        made |= _pages_of(path, module)
    documents = [  # short names: the left column is narrow
        f"{path.removeprefix('funcgrad.')} </reference/{path}>" for path in public_modules()
    ]
    made["reference/index"] = INTRODUCTION.format(
        documents=indent("\n".join(documents), "   "),
        rows="\n".join(
            f"   * - :doc:`{path} </reference/{path}>`\n     - {_sentence(module)}"
            for path, module in public_modules().items()
        ),
    ).lstrip()
    return made


# -------------------------------------------------------------------------------------------- pages


def _pages_of(path: str, module: ModuleType) -> dict[str, str]:
    """The page of a module, and those that it is divided into."""
    names, document = entries(module, path), f"reference/{path}"
    head = f"{_title(path)}\n.. automodule:: {path}\n   :no-members:\n"
    if path == "funcgrad.errors":
        made = {f"errors/{entry.name}": _title(entry.name) + _described(entry) for entry in names}
        return {document: head + _toctree(path, made) + _table(names), **made}
    if path == "funcgrad":
        made = {
            f"{document}/{_word(entry)}": _title(entry.path) + _described(entry) for entry in names
        }
        return {document: head + _toctree(path, made) + _table(names), **made}
    if len(names) <= MOST_ON_ONE_PAGE:
        return {document: head + _table(names) + _all_described(names)}
    files = defaultdict(list)
    for entry in names:
        files[_file(entry, path)].append(entry)
    made = {
        f"{document}/{file}": _title(f"{path}: {file.replace('_', ' ')}")
        + _table(group)
        + _all_described(group)
        for file, group in sorted(files.items())
    }
    tables = "".join(
        f"\n.. rubric:: :doc:`{file.replace('_', ' ')} </{document}/{file}>`\n{_table(group)}"
        for file, group in sorted(files.items())
    )
    return {document: head + _toctree(path, made) + tables, **made}


def _word(entry: Entry) -> str:
    """The file of a name: `Program` and `program` differ also where case does not."""
    return f"{entry.name}_class" if entry.kind == "class" else entry.name


def _file(entry: Entry, path: str) -> str:
    """The word under which a name stands in a module that is divided."""
    if path in CLASSES_APART and entry.kind == "class" and not entry.is_alias:
        return _word(entry)
    if entry.is_alias and not entry.canonical.startswith(f"{path}."):
        return "others"
    return entry.file or "dtypes_and_constants"


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"


def _toctree(path: str, made: Mapping[str, str]) -> str:
    """The pages of a module; the left column is narrow, so titles there lack the module."""
    titles = {document: text.partition("\n")[0] for document, text in made.items()}
    lines = [
        f"   {title.removeprefix(path).lstrip('.: ').removesuffix(' class')} </{document}>\n"
        for document, title in titles.items()
    ]
    return "\n.. toctree::\n   :hidden:\n\n" + "".join(lines)


def _table(names: Sequence[Entry]) -> str:
    """The names with the first sentences of their docstrings."""
    if not names:
        return ""
    rows = "".join(
        f"   * - :py:obj:`{entry.name} <{entry.path}>`\n     - {_summary(entry)}\n"
        for entry in names
    )
    return f"\n.. list-table::\n   :widths: 25 75\n\n{rows}"


def _summary(entry: Entry) -> str:
    if entry.is_alias:
        return f":py:obj:`{entry.canonical}`"
    if entry.kind == "data":
        return _meaning(entry)
    if not _is_ours(entry.value):
        return f"The same as :py:obj:`{_foreign_path(entry.value)}`."
    return _sentence(entry.value)


def _sentence(value: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return escaped(" ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split()))


# ------------------------------------------------------------------------------------------ entries


def _all_described(names: Sequence[Entry]) -> str:
    """The entries of names, and the entries of the classes of values among them."""
    kinds = {type(entry.value) for entry in names if entry.kind == "data"}
    described = {entry.value for entry in names if entry.kind == "class"} | {funcgrad.Tensor}
    unnamed = sorted(
        (kind for kind in kinds - described if _is_ours(kind)), key=lambda kind: kind.__name__
    )
    return "".join(map(_described, names)) + "".join(map(_class_of_values, unnamed))


def _described(entry: Entry) -> str:
    """The entry of a name."""
    role = {"exception": "exception", "class": "class", "function": "function"}.get(
        entry.kind, "data"
    )
    if entry.is_alias:
        return f"\n.. py:{role}:: {entry.path}\n\n   Another name of :py:obj:`{entry.canonical}`.\n"
    if entry.kind == "data":
        return f"\n.. py:data:: {entry.path}\n\n   {_meaning(entry)}\n"
    if not _is_ours(entry.value):
        return f"\n.. py:{role}:: {entry.path}\n\n   {_summary(entry)}\n"
    members = "   :members:\n" if role in ("class", "exception") else ""
    if role == "exception":  # users catch it as the built-in exception
        members += "   :show-inheritance:\n\n" + indent(_repair(entry), "   ")
    return f"{_index(entry)}\n.. auto{role}:: {entry.path}\n{members}"


def _repair(entry: Entry) -> str:
    """An example of an error and its repair, from the page of all errors, and a link to it."""
    name = entry.path.rpartition(".")[2]
    others = "Warnings" if issubclass(entry.value, Warning) else "Errors without an example"
    text = TROUBLESHOOTING.read_text("utf-8")
    found = re.search(rf"(?ms)^### ({name}: [^\n]*)\n(.*?)^##", text)
    heading, example = found.groups() if found else (others, "")
    anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
    example = _CELL.sub(lambda cell: ".. code-block:: python\n\n" + indent(cell[1], "   "), example)
    example = re.sub(r"\{([\w:]+)\}`", r":\1:`", example)
    link = f"`Troubleshooting <../troubleshooting.html#{anchor}>`__"
    if not found:
        return f"More: {link}.\n"
    return f"This fails:\n{example}\nThe message, the imports and ``t``: {link}.\n"


def _index(entry: Entry) -> str:
    """The words by which the search finds an entry first: its short path, and words of other
    libraries."""
    short = entry.path.replace("funcgrad", "fg", 1)
    words = [short, *(word for word, path in WORDS.items() if path == entry.path)]
    lines = "".join(f"   ! single: {word}\n" for word in words)
    return f"\n.. index::\n{lines}   :name: {short}\n"


def _class_of_values(kind: type) -> str:
    return f"\n.. autoclass:: {kind.__module__}.{kind.__name__}\n   :members:\n"


def _is_ours(value: Any) -> bool:
    home = getattr(value, "__module__", None) or type(value).__module__
    return str(home).startswith("funcgrad") or isinstance(value, float | None)


def _foreign_path(value: Any) -> str:
    return f"{value.__module__}.{value.__name__}".removeprefix("builtins.")


def _meaning(entry: Entry) -> str:
    """The text for a value: the string below its assignment, or else its description."""
    value, text = entry.value, _text_below(entry)
    if text:
        return text
    if isinstance(value, float | None):
        return f"The constant ``{value!r}``: :py:obj:`numpy.{entry.name}`."
    if isinstance(value, type(int | str)):
        return "``" + str(value).replace("funcgrad._core.structure.structures.", "") + "``"
    attribute = _attribute_text(value)
    return attribute or f"A value of :py:class:`{_path_of(type(value))}`."


def _path_of(kind: type) -> str:
    """The path that a class is described under."""
    paths = (entry.path for entry in all_entries() if entry.value is kind)
    return next(paths, f"{kind.__module__}.{kind.__name__}")


def _text_below(entry: Entry) -> str:
    """The string that follows the assignment of a name in the file of its class."""
    home = modules.get(type(entry.value).__module__)
    if home is None or not str(home.__name__).startswith("funcgrad"):
        return ""
    return dict(_texts_below(home)).get(entry.name, "")


def _texts_below(module: ModuleType) -> Iterator[tuple[str, str]]:
    body = ast.parse(inspect.getsource(module)).body
    for pair in pairwise(body):
        match pair:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split())


def _attribute_text(value: Any) -> str:
    """The part of an enumeration's docstring about one of its members."""
    name, lines = getattr(value, "name", None), (inspect.getdoc(type(value)) or "").splitlines()
    if name not in lines:
        return ""
    following = lines[lines.index(name) + 1 :]
    text = [
        line.strip()
        for line in following[
            : next((k for k, line in enumerate(following) if line[:1].strip()), len(following))
        ]
    ]
    return " ".join(text)
