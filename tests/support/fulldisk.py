"""Small full disks, for programs that may mount file systems."""

from __future__ import annotations

import subprocess

__all__ = ["fill", "mount", "mount_image"]

# Command and size of each image: the smallest that its tools allow.
IMAGES = {
    "ext4": (2**22, ["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal"]),
    "btrfs": (2**24, ["mkfs.btrfs", "-q", "--mixed"]),
}


def mount(folder, size) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)


def mount_image(folder, kind) -> None:
    """Mount a file system of a kind from a file beside the folder."""
    image = f"{folder}.image"
    size, make = IMAGES[kind]
    with open(image, "wb") as file:
        file.truncate(size)
    subprocess.run([*make, image], check=True)
    subprocess.run(["mount", "-o", "loop", image, folder], check=True)


def fill(folder, name="ballast", piece=4096) -> None:
    """Fill the remaining space with a file, in whole pieces."""
    with open(f"{folder}/{name}", "wb", buffering=0) as ballast:
        try:
            while ballast.write(bytes(piece)):
                pass
        except OSError:
            pass
