"""Check the subjects of commits: 72 characters at most, as git and other programs show them whole.

python check_subjects.py REPOSITORY

Commits count from the one that brought this file.  A tree without git, or without that commit (a
shallow clone), has nothing to check.
"""

import subprocess
import sys
from pathlib import Path

MOST = 72


def git(repository, *words):
    done = subprocess.run(
        ["git", "-C", str(repository), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


def long_subjects(repository, name):
    """Return commits since the one that added a file, and that one, whose subjects are too long."""
    added = git(repository, "log", "--diff-filter=A", "--format=%H", "--", name)
    if not added:
        return []
    first = added[-1]
    rows = git(repository, "log", "--no-merges", "--format=%H %s", "HEAD", f"^{first}")
    rows += git(repository, "log", "-1", "--format=%H %s", first)
    return [row for row in rows if len(row.partition(" ")[2]) > MOST]


def main(repository):
    found = long_subjects(repository, ".ci/check_subjects.py")
    for row in found:
        commit, _, subject = row.partition(" ")
        print(
            f"{commit[:12]}: the subject has {len(subject)} characters, {MOST} at most: {subject}"
        )
    return len(found) > 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
