"""The Markdown pages that lie beside the code, as pages of the site: a Sphinx extension that copies
them.

A link from one of them to another leads to its page on the site; a link to a file that has no page,
such as a module, becomes the file's name.
"""

from __future__ import annotations

import re
from os.path import normpath, relpath
from pathlib import Path
from typing import TYPE_CHECKING

from examples.docs.building import written_pages

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parents[1]
PROJECT = HERE.parents[1]

FOLDER = "packages"
"""A folder of the site's source that holds nothing else than these pages."""

UNSEARCHED = "---\nnosearch: true\n---\n\n"
"""The front matter of a page that would be among the first results of every search."""

_LINK = re.compile(r"\[(?P<text>[^\]\n]+)\]\((?P<target>[^)\s:#]+)(?P<anchor>#[^)\s]*)?\)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx write the pages before it looks for pages."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir)))
    return {"parallel_read_safe": True}


def write(folder: Path) -> None:
    """Write the pages into the folder of the site's source, and remove those that have gone."""
    texts = {folder / f"{page}.md": text for page, text in pages().items()}
    written_pages.replace([folder / FOLDER], texts)


def pages() -> dict[str, str]:
    """The texts of the pages, and of an index of them, by their documents' names."""
    sources = {_page(path): path for path in _sources()}
    texts = {page: _linked(path) for page, path in sorted(sources.items())}
    titles = {page: text.partition("\n")[0].removeprefix("# ") for page, text in texts.items()}
    rows = "\n".join(f"- [{title}](/{page}.md)" for page, title in titles.items())
    names = "\n".join(f"/{page}" for page in texts)
    contents = f"```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    introduction = "The pages that lie beside the code, for those who read or change it."
    texts[f"{FOLDER}/changelog"] = UNSEARCHED + texts[f"{FOLDER}/changelog"]
    texts[f"{FOLDER}/index"] = f"# Inside\n\n{introduction}\n\n{rows}\n\n{contents}"
    return texts


def _sources() -> list[Path]:
    beside = [*PROJECT.glob("*.md"), *(PROJECT / "funcgrad").rglob("*.md")]
    return [path for path in beside if path != PROJECT / "README.md"]


def _page(path: Path) -> str:
    """The document's name: of a package its path, of another page the page's own."""
    if path.name == "README.md":
        parts = path.parent.relative_to(PROJECT / "funcgrad").parts
        return f"{FOLDER}/{'_'.join(parts).removeprefix('_')}"
    return f"{FOLDER}/{path.stem.lower()}"


def _linked(path: Path) -> str:
    """The text of a page whose links lead to pages."""

    def link(match: re.Match[str]) -> str:
        target = Path(normpath(path.parent / match["target"]))
        page = _document(target / "README.md" if target.is_dir() else target)
        text, anchor = match["text"], match["anchor"] or ""
        return f"[{text}]({relpath(page, FOLDER)}.md{anchor})" if page else text

    return _LINK.sub(link, path.read_text("utf-8"))


def _document(path: Path) -> str | None:
    """The document that a file is on the site, if it is one."""
    if path == PROJECT / "README.md":
        return "index"
    if path in _sources():
        return _page(path)
    if path.is_relative_to(HERE) and path.suffix == ".md":
        return str(path.relative_to(HERE).with_suffix(""))
    return None
