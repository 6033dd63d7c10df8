"""One layer calls the operating system: the headers behind `_system.h`, and `common.system`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "extarray"
INTERFACE = ROOT / "_core" / "_system.h"
COMPILED = {system: ROOT / "_core" / f"_system_{system}.h" for system in ("posix", "windows")}
PYTHON = {ROOT / "common" / f"{name}.py" for name in ("system", "system_posix", "system_windows")}

#: Modules of the standard library that Windows lacks, or has without their POSIX meaning.
MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "signal", "termios"}

#: Members of ``os`` that only POSIX has, by CPython's documentation.
CALLS = re.compile(
    r"""(O_(CLOEXEC|NONBLOCK|DIRECTORY|NOFOLLOW|PATH|TMPFILE|D?SYNC|NDELAY|NOCTTY|DIRECT)
    |SEEK_(DATA|HOLE)|p(read|write)v?2?|posix_\w+|copy_file_range|sendfile|splice|eventfd\w*
    |fork\w*|register_at_fork|wait\w*|killp?g?|nice|get(e?uid|e?gid|groups|res[ug]id|pgi?d|priority)
    |set\w*id|l?chown|fch(own|mod|dir)|lchmod|chflags|chroot|\w*xattr|f?statvfs|mk(fifo|nod)|sync
    |fdatasync|sched_\w+|sysconf|f?pathconf|confstr|uname|ttyname|memfd_create|lockf|openpty
    |getloadavg|ctermid|pipe2)$""",
    re.VERBOSE,
)
#: What Windows has, too, but does otherwise to a file that is open.
NAMES = {"link", "open", "remove", "rename", "renames", "replace", "unlink"}
FOLDERS = re.compile(r"^/(proc|dev|sys)(/|$)")
ATTRIBUTES = {"st_blocks", "st_uid", "st_gid", "st_flags"}


def posix_in_python(text: str) -> list[str]:
    """Return the system's names that a module uses and Windows lacks."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").split(".")[0] in MODULES:
                found.append(node.module)
            elif node.module == "os":
                found += [a.name for a in node.names if CALLS.match(a.name)]
        elif isinstance(node, ast.Attribute):
            is_os = isinstance(node.value, ast.Name) and node.value.id == "os"
            is_call = node.attr in NAMES or CALLS.match(node.attr)
            if (is_os and is_call) or node.attr in ATTRIBUTES:
                found.append(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if FOLDERS.match(node.value):
                found.append(node.value)
        elif isinstance(node, ast.keyword) and node.arg in {"dir_fd", "src_dir_fd", "dst_dir_fd"}:
            found.append(node.arg)
    return found


_HEADERS = re.compile(
    r"<(sys/\w+|unistd|fcntl|pthread|sched|poll|dirent|signal|dlfcn"
    r"|windows|win\w+|io|process)\.h>|\bposix\.\w+"
)
_C_CALLS = re.compile(
    r"(?<![.\w])(mmap|munmap|mprotect|madvise|pread\w*|pwrite\w*|f?statv?fs|fstat\w*|ftruncate"
    r"|f?sysconf|fsync|fdatasync|fallocate|sync_file_range|flock|fcntl|ioctl|syscall|dup[23]?|uname"
    r"|pthread_\w+|sched_yield|getauxval|posix_\w+"
    r"|(Read|Write|Create|(Unl|L)ock)File\w*|Virtual[A-Z]\w+|(Unm|M)apViewOf\w+|DeviceIoControl"
    r"|(Get|Set)(File|System|Last|Module|Proc|Disk|Final)\w+|Fls[A-Z]\w+|InitOnce\w+)\s*\("
)
_COMMENTS = re.compile(
    r'/\*.*?\*/|//[^\n]*|#(?!\s*include)[^\n]*|"""(?!\n    #include).*?"""', re.DOTALL
)


def system_in_compiled(text: str) -> list[str]:
    """Return the system's names in C or Cython code, without comments and docstrings."""
    code = _COMMENTS.sub("", text)
    return [m[0] for m in (*_HEADERS.finditer(code), *_C_CALLS.finditer(code))]


def test_python_calls_the_system_in_one_module():
    sources = [p for p in ROOT.rglob("*.py") if p not in PYTHON]
    found = {
        str(p.relative_to(ROOT)): used
        for p in sources
        if (used := posix_in_python(p.read_text("utf-8")))
    }
    assert found == {}, "call it in extarray.common.system"


def test_compiled_code_calls_the_system_in_one_layer():
    sources = [p for p in ROOT.rglob("*") if p.suffix in {".pyx", ".pxd", ".h", ".c"}]
    found = {
        str(p.relative_to(ROOT)): used
        for p in sources
        if p not in COMPILED.values() and (used := system_in_compiled(p.read_text("utf-8")))
    }
    assert found == {}, "call it in _core/_system_posix.h and _system_windows.h"


@pytest.mark.parametrize(
    "text",
    [
        "import fcntl",
        "from resource import getrlimit",
        "import os\nos.pread(0, 1, 0)",
        "import os\nopened('a', os.O_RDONLY | os.O_CLOEXEC)",
        "import os\nos.open('a', os.O_RDONLY)",
        "from os import fork",
        "open('/proc/self/status')",
        "import os\nos.stat('a').st_blocks",
        "import os\nos.stat('a', dir_fd=3)",
        "import os\nos.replace('a', 'b')",
    ],
)
def test_a_call_in_python_is_found(text):
    assert len(posix_in_python(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "#include <sys/mman.h>\n",
        "from posix.unistd cimport pread\n",
        "    base = mmap(NULL, 1)\n",
        'cdef extern from "<sys/stat.h>":\n    pass\n',
        "#include <windows.h>\n",
        "    base = VirtualAlloc(NULL, 1)\n",
    ],
)
def test_a_call_in_compiled_code_is_found(text):
    assert len(system_in_compiled(text)) == 1


def test_the_files_of_the_layer_are_there():
    for path in PYTHON:
        assert posix_in_python(path.read_text("utf-8"))
    for path in COMPILED.values():
        assert system_in_compiled(path.read_text("utf-8"))


_FUNCTION = re.compile(r"^static inline ([^;{=]+?\([^;{]*?\))\s*([;{])", re.MULTILINE)


def functions(path: Path, end: str) -> set[str]:
    """Return the functions of a header that its declarations (`;`) or definitions (`{`) name."""
    code = _COMMENTS.sub("", path.read_text("utf-8"))
    return {re.sub(r"\s+", " ", found) for found, last in _FUNCTION.findall(code) if last == end}


#: Errors whose numbers differ between Python on Windows and C, by CPython's errnomodule.c.
_TWO_NUMBERS = re.compile(
    r"\bE(ADDRINUSE|ADDRNOTAVAIL|AFNOSUPPORT|ALREADY|CONNABORTED|CONNREFUSED|CONNRESET|DESTADDRREQ"
    r"|DQUOT|HOSTUNREACH|INPROGRESS|ISCONN|LOOP|MSGSIZE|NETDOWN|NETRESET|NETUNREACH|NOBUFS"
    r"|NOPROTOOPT|NOTCONN|NOTSOCK|OPNOTSUPP|PROTONOSUPPORT|PROTOTYPE|STALE|TIMEDOUT|WOULDBLOCK)\b"
)


def test_compiled_code_returns_errors_that_python_knows_by_the_same_number():
    sources = [p for p in ROOT.rglob("*") if p.suffix in {".pyx", ".pxd", ".h", ".c"}]
    found = {
        str(p.relative_to(ROOT)): used
        for p in sources
        if p != COMPILED["posix"]
        and (used := _TWO_NUMBERS.findall(_COMMENTS.sub("", p.read_text("utf-8"))))
    }
    assert found == {}, "use XA_UNSUPPORTED, or another number"
    assert _TWO_NUMBERS.findall("return EOPNOTSUPP;") == ["OPNOTSUPP"]


@pytest.mark.parametrize("system", COMPILED)
def test_each_system_has_every_function_of_the_interface(system):
    wanted = functions(INTERFACE, ";")
    assert len(wanted) > 40
    assert wanted - functions(COMPILED[system], "{") == set()
