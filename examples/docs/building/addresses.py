"""Absolute links: all follow the addresses in ``[project.urls]`` of ``pyproject.toml``.

A package index shows the README without the files that its relative links lead to, so hatchling
puts a text with absolute links into the distributions. As long as no address is known, the links
become plain text. The configuration of the site takes its addresses from here, too.

>>> absolute("[a](b.md), [c](#d)", {"Source": "https://x.org/blob/main"})
'[a](https://x.org/blob/main/b.md), [c](#d)'
>>> absolute("[a](b.md), [c](#d)", {})
'a, [c](#d)'
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PROJECT = Path(__file__).resolve().parents[3]
_RELATIVE = re.compile(r"\[(?P<text>[^\[\]]+)\]\((?P<target>(?!https?:)[^#)\s][^)\s]*)\)")


def urls(project: Path = PROJECT) -> dict[str, str]:
    """The addresses of the project by their names; none before they are known."""
    settings = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))
    known: dict[str, str] = settings["project"].get("urls", {})
    return known


def absolute(text: str, addresses: Mapping[str, str]) -> str:
    """A page whose links to files are absolute; without an address for them, plain text.

    Parameters
    ----------
    text : str
        Markdown.
    addresses : mapping of str to str
        ``Source`` is the address of the folder with the project's files.
    """
    source = addresses.get("Source", "").rstrip("/")
    return _RELATIVE.sub(rf"[\g<text>]({source}/\g<target>)" if source else r"\g<text>", text)


class Readme(MetadataHookInterface):
    """Hatchling's hook that gives the README to the distributions."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the text of the README into the metadata of the project."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, metadata.get("urls", {})),
        }
