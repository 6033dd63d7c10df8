"""Import every module of the installed package and use an array, with NumPy alone.

A bridge to another library says which extra it lacks.  Where Python can do without the GIL, it is
off in the end.
"""

import importlib
import pkgutil
import sys
import sysconfig
import tempfile
from pathlib import Path

import extarray as xa

BRIDGES = ("extarray.cli.", "extarray.interop.", "extarray.plot.pixels", "extarray.view")

OF_ANOTHER_SYSTEM = f"extarray.common.system_{'posix' if sys.platform == 'win32' else 'windows'}"

names = sorted(m.name for m in pkgutil.walk_packages(xa.__path__, "extarray."))
names.remove(OF_ANOTHER_SYSTEM)
for name in names:
    try:
        importlib.import_module(name)
    except xa.MissingExtraError:
        assert name.startswith(BRIDGES)

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    assert not sys._is_gil_enabled()

with tempfile.TemporaryDirectory() as folder:
    with xa.create(Path(folder, "a"), shape=(2, 3), dtype="i4", fill_value=7) as a:
        a[...] = [[1, 2, 3], [4, 5, 6]]
        a.extend(axis=1, by=1)
    with xa.open(Path(folder, "a")) as a:
        assert a[...].tolist() == [[1, 2, 3, 7], [4, 5, 6, 7]]

print(f"extarray {xa.__version__} from {xa.__path__[0]}: {len(names)} modules")
