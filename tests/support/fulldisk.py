"""Small disks that are full, for programs that may mount file systems."""

from __future__ import annotations

import subprocess

__all__ = ["fill", "mount"]


def mount(folder, size) -> None:
    """Mount a file system of a size in memory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)


def fill(folder, name="ballast", piece=4096) -> None:
    """Give a file all the space that is left, as far as whole pieces go."""
    with open(f"{folder}/{name}", "wb", buffering=0) as ballast:
        try:
            while ballast.write(bytes(piece)):
                pass
        except OSError:
            pass
