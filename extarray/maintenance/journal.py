"""The progress of a pass, kept with the array that it writes.

The array has another name until it is complete.  Till then its attributes hold what the work is,
and how many of its templates are done.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from extarray.common.errors import StorageError
from extarray.common.limits import limits
from extarray.format.attrs import decode_attrs, encode_attrs

if TYPE_CHECKING:
    from extarray.storage.file_store import FileStore

__all__ = ["Journal", "first_notes", "has_notes"]

_KEY = "extarray.rechunk"


def first_notes(job: dict[str, Any]) -> str:
    """Return the attributes of an array that a pass is about to write, for a `Journal`."""
    return _notes(job, 0, False)


def _notes(job: dict[str, Any], done: int, complete: bool) -> str:
    return encode_attrs({_KEY: {"job": job, "done": done, "complete": complete}})


def has_notes(store: FileStore) -> bool:
    """Tell whether a pass has made an array."""
    return _KEY in decode_attrs(store.now.attrs)


class Journal:
    """Notes of a pass, in the store of the array that it writes.

    The job is the JSON values that tell this work from any other.
    """

    def __init__(self, store: FileStore, job: dict[str, Any]) -> None:
        self._store = store
        self._job = job
        self._last = time.monotonic()
        # Of this work; with so many templates done; or with all of them done, on the disk, so that
        # what they came from may be gone.
        notes = decode_attrs(store.now.attrs).get(_KEY, {})  # only this module uses the key
        self.is_of_this = notes.get("job") == self._job
        self.done: int = notes["done"] if self.is_of_this else 0
        self.is_complete: bool = self.is_of_this and notes.get("complete", False)

    def note(self, done: int) -> None:
        """Note how many templates are done; now and then this is brought to the disk."""
        self.done = done
        if self.is_due:
            self.save()

    @property
    def is_due(self) -> bool:
        """Tell whether it is time to bring what is done to the disk."""
        return time.monotonic() - self._last >= limits.journal_interval

    def save(self) -> None:
        """Bring what is done to the disk: the elements first."""
        self._store.flush()
        self._save()
        self._last = time.monotonic()

    def finish(self) -> None:
        """Bring all of the pass to the disk, and then the note of that."""
        self.is_complete = True
        self.save()
        self._store.flush()

    def save_quietly(self) -> None:
        """Save as `save` does, after an error: another one adds nothing."""
        with contextlib.suppress(StorageError):
            self.save()

    def _save(self) -> None:
        self._store.set_attrs(_notes(self._job, self.done, self.is_complete))
