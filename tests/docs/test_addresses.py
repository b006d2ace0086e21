"""All absolute links follow ``[project.urls]``: in the README of the distributions, on the site."""

import re
from pathlib import Path

from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from examples.docs.building.addresses import PROJECT, absolute, urls

NAMES = {"Documentation", "Source", "Changelog", "Issues"}
KNOWN = {name: f"https://example.org/{name.lower()}" for name in NAMES}


def readme(addresses: dict[str, str]) -> str:
    """The README as an index would show it."""
    metadata = ProjectMetadata(str(PROJECT), PluginManager())
    metadata.config["project"]["urls"] = addresses
    assert metadata.core.readme_content_type == "text/markdown"
    return metadata.core.readme


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text)


def test_the_readme_of_distributions_has_no_relative_link() -> None:
    written = (PROJECT / "README.md").read_text("utf-8")
    files = [link for link in links(written) if not link.startswith(("https:", "#"))]
    assert len(files) > 40
    assert all((PROJECT / file.partition("#")[0]).exists() for file in files)
    shown = readme(KNOWN)
    assert [link for link in links(shown) if link.startswith(KNOWN["Source"])] == [
        f"{KNOWN['Source']}/{file}" for file in files
    ]
    assert not [link for link in links(readme({})) if not link.startswith(("https:", "#"))]
    assert readme(urls()) == absolute(written, urls())


def missing(addresses: dict[str, str], citation: str) -> set[str]:
    """The names without an address, and the address that the citation lacks."""
    if not addresses:
        return set()
    source = addresses.get("Source", "")
    cited = {source} if f"repository-code: {source!r}".replace("'", '"') not in citation else set()
    return (NAMES - addresses.keys()) | cited


def test_addresses_are_known_together() -> None:
    # If this fails: give all of NAMES in [project.urls], and in CITATION.cff the line
    # repository-code: "address of Source".
    assert missing(urls(), (PROJECT / "CITATION.cff").read_text("utf-8")) == set()
    assert missing({"Source": "https://x.org"}, 'repository-code: "https://x.org"\n') == (
        NAMES - {"Source"}
    )
    assert missing(KNOWN, "") == {KNOWN["Source"]}


def test_addresses_are_read_from_the_settings(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\n[project.urls]\nSource = "https://example.org"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert urls(tmp_path) == {"Source": "https://example.org"}
