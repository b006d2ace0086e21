"""The pages beside the code become pages of the site, whose links lead to pages."""

from pathlib import Path

from examples.docs.building import package_pages


def test_links_lead_to_pages_and_names_of_files_stay(tmp_path: Path) -> None:
    pages = package_pages.pages()
    assert {"packages/index", "packages/numpy", "packages/edges", "packages/kinks"} <= pages.keys()
    assert "](edges.md)" in pages["packages/numpy"]
    assert "](../how_it_works.md)" in pages["packages/transforms"]
    assert not any("README.md)" in text for text in pages.values())
    gone = tmp_path / "packages" / "gone.md"
    gone.parent.mkdir()
    gone.write_text("# Gone")
    package_pages.write(tmp_path)
    assert not gone.exists()
    assert (tmp_path / "packages" / "edges.md").read_text("utf-8") == pages["packages/edges"]
