"""Pictures drawn while the documentation is built, below the code that draws them.

    ```{picture} Text that tells what is to be seen
    a.plot()
    ```

The pictures of a page share one namespace and one empty folder, as its other blocks do in the
tests.  The value of the last line is the figure, or axes of it.  ``{setup}`` is for code that draws
nothing.  Code that fails is a warning of the build.
"""

import ast
import contextlib
import io
import os
import tempfile
import traceback
from pathlib import Path

import matplotlib as mpl
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)

mpl.use("agg")

#: Dots per inch.
DPI = 90


def value_of(code, namespace):
    """Run code; return the value of its last line, if that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<picture>", "exec"), namespace)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "<picture>", "eval"), namespace)


class Setup(SphinxDirective):
    """Code that draws nothing, for the pictures that follow."""

    has_content = True

    def run(self):
        self.run_code()
        return [self.shown_code()]

    def shown_code(self):
        code = "\n".join(self.content)
        block = nodes.literal_block(code, code, language="python")
        self.set_source_info(block)
        return block

    def run_code(self):
        """Run the code in the namespace and the folder of the page."""
        page = self.env.temp_data.get("pictures")
        if page is None:
            folder = tempfile.TemporaryDirectory(prefix="pictures-")
            page = self.env.temp_data["pictures"] = {"folder": folder, "names": {}, "count": 0}
        with contextlib.chdir(page["folder"].name), contextlib.redirect_stdout(io.StringIO()):
            try:
                return value_of("\n".join(self.content), page["names"])
            except Exception:  # noqa: BLE001 -- the code of a page
                reason = traceback.format_exc()
                logger.warning("a picture fails:\n%s", reason, location=self.get_location())
                return None


class Picture(Setup):
    """Code, and the picture that it draws."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        found = self.run_code()
        figure = getattr(found, "figure", found)
        if not hasattr(figure, "savefig"):
            logger.warning("the last line is no figure", location=self.get_location())
            return [self.shown_code()]
        page = self.env.temp_data["pictures"]
        page["count"] += 1
        name = f"{self.env.docname.replace('/', '-')}-{page['count']}.png"
        file = Path(self.env.doctreedir, "pictures", name)
        file.parent.mkdir(exist_ok=True, parents=True)
        figure.savefig(file, dpi=DPI)
        here = Path(self.env.doc2path(self.env.docname)).parent
        image = nodes.image(
            uri=os.path.relpath(file, here), alt=" ".join(self.arguments[0].split())
        )
        self.set_source_info(image)
        return [self.shown_code(), image]


def setup(app):
    app.add_directive("setup", Setup)
    app.add_directive("picture", Picture)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
