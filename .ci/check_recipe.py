"""Render conda-forge's recipe for each Python that the package names; nothing is built."""

import re
import sys
import tomllib
from pathlib import Path

from rattler_build import Stage0Recipe, VariantConfig

root = Path(__file__).parents[1]
project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
pythons = re.findall(r"Python :: (3\.\d+)\b", "\n".join(project["classifiers"]))
variants = VariantConfig({"c_stdlib": ["sysroot"], "python": [f"{v}.* *_cpython" for v in pythons]})
rendered = Stage0Recipe.from_file(str(root / ".ci" / "recipe.yaml")).render(variants)
version = re.search(r'__version__ = "(.+)"', (root / "extarray" / "__init__.py").read_text())[1]
found = [variant.recipe.package.version for variant in rendered]
print(f"{len(found)} packages of version {version}, for {', '.join(pythons)}")
sys.exit(
    0 if found and set(map(str, found)) == {version} and len(found) == len(pythons) else str(found)
)
