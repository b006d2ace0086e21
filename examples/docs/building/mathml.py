"""Formulas as MathML, which browsers draw by themselves, without a script or a network.

A Sphinx extension: the renderer of formulas ``mathml``, by the converter latex2mathml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Give Sphinx the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True}


def _inline(translator: Any, node: Any) -> None:
    translator.body.append(convert(node.astext()))
    raise SkipNode


def _block(translator: Any, node: Any) -> None:
    # Sphinx writes aligned lines as `a &= b \\`, which need an environment.
    text = node.astext()
    if "\\\\" in text and "\\begin" not in text:
        text = rf"\begin{{align}}{text}\end{{align}}"
    label = f' id="{node["ids"][0]}"' if node["ids"] else ""
    translator.body.append(f'<div class="math"{label}>{convert(text, display="block")}</div>\n')
    raise SkipNode
