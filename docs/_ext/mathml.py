"""Formulas as MathML, made by docutils.

Sphinx's usual renderer loads MathJax from the network when a page is read. Browsers draw MathML by
themselves, and docutils can write it, so that the pages need nothing but the files of the build.
"""

import re

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)

#: Commands that docutils does not know, and what says the same.
ALIASES = ((re.compile(r"\\dots(?![a-zA-Z])"), r"\\ldots "),)


def _mathml(node, as_block):
    text = node.astext()
    for pattern, replacement in ALIASES:
        text = pattern.sub(replacement, text)
    try:
        return latex2mathml.tex2mathml(text, as_block=as_block)
    except MathError as error:
        logger.warning("formula not understood: %s", error, location=node)
        return f"<code>{node.astext()}</code>"


def visit_inline(translator, node):
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator, node):
    translator.body.append(translator.starttag(node, "div", CLASS="math-block"))
    translator.body.append(_mathml(node, as_block=True))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
