"""Check what the sdist and the wheel hold, against the source they were made from.

python check_dist.py SOURCE SDIST WHEEL
"""

import sys
import tarfile
import zipfile
from pathlib import Path


def sdist_names(path):
    with tarfile.open(path) as archive:
        return {n.partition("/")[2] for n in archive.getnames()} - {""}


def wheel_names(path):
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def main(source, *dists):
    source = Path(source)
    sdist = sdist_names(next(d for d in dists if d.endswith(".tar.gz")))
    wheel = wheel_names(next(d for d in dists if d.endswith(".whl")))
    package = {
        str(p.relative_to(source))
        for p in (source / "extarray").rglob("*")
        if p.suffix in {".py", ".pyi", ".pyx", ".pxd", ".h"}
        or p.name == "py.typed"
        or p.parent.name == "page"  # what the server of `extarray view` gives to browsers
    }
    python = {n for n in package if not n.endswith((".pyx", ".pxd", ".h"))}
    modules = {n.removesuffix(".pyx") for n in package if n.endswith(".pyx")}
    compiled = {n.partition(".")[0] for n in wheel if n.endswith(".so")}
    top = {"LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "setup.py"}
    top |= {"CITATION.cff", ".github/SECURITY.md", ".ci/test_core.py"}
    suite, benchmarks, pages, tools = (
        {str(p.relative_to(source)) for p in (source / folder).rglob("*") if p.is_file()}
        for folder in ("tests", "benchmarks", "docs/format", ".ci")
    )

    problems = [f"sdist: without {n}" for n in sorted((package | top | suite | pages) - sdist)]
    problems += [
        f"sdist: has {n}"
        for n in sorted(sdist - suite - benchmarks - pages - tools)  # these compile C of their own
        if n.endswith((".c", ".so", ".o", ".pyc"))
    ]
    problems += [f"wheel: without {n}" for n in sorted(python - wheel)]
    problems += [f"wheel: no compiled {n}" for n in sorted(modules - compiled)]
    problems += [
        f"wheel: has {n}"
        for n in sorted(wheel)
        if n.endswith((".c", ".pyx", ".pxd", ".h", ".o", ".pyc"))
        or not (n.startswith("extarray/") or ".dist-info/" in n)
    ]
    if not modules:
        problems.append("no compiled module at all")
    # Every compiled module has its stub.
    problems += [f"no stub for {n}" for n in sorted(modules) if f"{n}.pyi" not in wheel]
    for problem in problems:
        print(problem)
    print(f"sdist: {len(sdist)} entries; wheel: {len(wheel)}, {len(compiled)} of them compiled")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
