"""The site's configuration: ``python -m sphinx -W -n examples/docs build/site`` builds it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
MADE = HERE / "made"
sys.path.insert(0, str(HERE.parents[1]))

import funcgrad as fg  # noqa: E402 - this package, whichever is installed
from examples.docs.building import addresses, browser, inventories  # noqa: E402 - the same

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "funcgrad"
author = "The funcgrad developers"
copyright = author
version = release = fg.__version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "jupyterlite_sphinx",
    "examples.docs.building.mathml",
    "examples.docs.building.package_pages",
    "examples.docs.building.page_process",
    "examples.docs.building.reference",
]
suppress_warnings = [
    "myst-nb.lexer",  # cells that are not executed have no lexer
    "sphinx_gallery.config",  # the gallery's page names files: it needs no back-references
]
exclude_patterns = ["building", "made", "**.ipynb", "gallery/*.py"]
nitpicky = True
nitpick_ignore = [("py:obj", "errno")]  # an attribute of OSError, which numpydoc refers to

# --------------------------------------------------------------------------------------- references

intersphinx_mapping = inventories.write(MADE / "inventories")
default_role = "code"

autodoc_typehints = "none"  # the docstrings say the types
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

# ------------------------------------------------------------------------------- pages and examples

os.environ["TQDM_DISABLE"] = "1"  # no progress bars among the results
os.environ["MATPLOTLIBRC"] = str(HERE / "matplotlibrc")  # for the pictures of pages
os.environ["IPYTHONDIR"] = str(MADE / "ipython")  # not the user's
nb_execution_mode = "cache"
nb_execution_in_temp = True  # pages write files
nb_execution_raise_on_error = True
nb_execution_timeout = 60
nb_merge_streams = True
nb_code_prompt_show = "Show the code of the picture"
nb_code_prompt_hide = "Hide the code of the picture"
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": "..",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "image_scrapers": ("examples.docs.building.pictures.drawn",),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "jupyterlite": None,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "doc_module": ("funcgrad",),
    "within_subsection_order": "FileNameSortKey",
    "default_thumb_file": str(HERE / "_static" / "logo.svg"),
}

# ------------------------------------------------------------------------- cells that browsers run

html_static_path = ["_static", browser.write(MADE / "browser" / "pypi")]  # live.js takes the wheel
html_css_files = ["live.css"]
html_js_files = ["tables.js"]
jupyterlite_dir = str(MADE / "browser")
jupyterlite_content_dir = str(MADE / "notebooks")
jupyterlite_bind_ipynb_suffix = False
global_enable_try_examples = True
try_examples_global_button_text = "Run in the browser"
try_examples_preamble = "%pip install -q funcgrad"
try_examples_global_warning_text = "Run the cells in order: the first one installs funcgrad."

# -------------------------------------------------------------------------------------------- looks

PAGES_WITHOUT_NEIGHBOURS = sorted(path.stem for path in HERE.glob("*.md"))
"""Pages of the first level: their left column would be empty."""

html_theme = "pydata_sphinx_theme"
html_title = "funcgrad"
html_baseurl = addresses.urls().get("Documentation", "")
html_favicon = html_logo = "_static/logo.svg"
html_math_renderer = "mathml"
html_context = {"default_mode": "auto"}
html_sidebars: dict[str, list[str]] = {page: [] for page in PAGES_WITHOUT_NEIGHBOURS}
html_theme_options = {
    "header_links_before_dropdown": 6,
    "logo": {"text": "funcgrad", "alt_text": "funcgrad"},
    "navigation_with_keys": False,
    "secondary_sidebar_items": {
        **{page: ["page-toc"] for page in ("*", "guide/*", "[!g]*/**")},
        "gallery/*": [],  # room for 100 columns
    },
    "show_prev_next": False,
    "show_toc_level": 2,
    "icon_links": [
        {"name": name, "url": address, "icon": "fa-solid fa-code"}
        for name, address in addresses.urls().items()
        if name == "Source"
    ],
}
html_copy_source = False
html_show_sourcelink = False


def setup(app: "Sphinx") -> None:
    """Say that pages are of Python, which colours their cells also where nothing is executed."""
    app.connect("source-read", _name_language)
    app.connect("source-read", _without_second_thumbnails)
    app.connect("config-inited", _without_foreign_styles)


def _without_foreign_styles(app: "Sphinx", _config: object) -> None:
    """Leave out styles of other sites, which an extension adds to every page."""
    app.registry.css_files = [
        (name, options) for name, options in app.registry.css_files if "://" not in name
    ]


def _name_language(_app: "Sphinx", _document: str, source: list[str]) -> None:
    kernel = "kernelspec:\n  name: python3\n"
    source[0] = source[0].replace(kernel, f"{kernel}  language: python\n", 1)


def _without_second_thumbnails(_app: "Sphinx", document: str, source: list[str]) -> None:
    """Leave out the thumbnails below the gallery's sections, which show them already."""
    if document == "gallery/index":
        sections, _, below = source[0].partition(".. raw:: html")
        source[0] = sections + ".. toctree::" + below.partition(".. toctree::")[2]
