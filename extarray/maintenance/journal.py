"""The progress of a pass, kept with the array that the pass writes.

Until that array is complete it has another name, and its attributes hold the identity of the work
and the number of templates done.
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
    """Return the initial attributes of an array that a pass writes, for a `Journal`."""
    return _notes(job, 0, False)


def _notes(job: dict[str, Any], done: int, complete: bool) -> str:
    return encode_attrs({_KEY: {"job": job, "done": done, "complete": complete}})


def has_notes(store: FileStore) -> bool:
    """Tell whether a pass made this array."""
    return _KEY in decode_attrs(store.now.attrs)


class Journal:
    """Notes of a pass, in the store of the array that it writes.

    `job` is a JSON value that identifies the work.
    """

    def __init__(self, store: FileStore, job: dict[str, Any]) -> None:
        self._store = store
        self._job = job
        self._last = time.monotonic()
        # `is_complete` means that all templates are done and on disk, so their source may go.
        notes = decode_attrs(store.now.attrs).get(_KEY, {})  # only this module uses the key
        self.is_of_this = notes.get("job") == self._job
        self.done: int = notes["done"] if self.is_of_this else 0
        self.is_complete: bool = self.is_of_this and notes.get("complete", False)

    def note(self, done: int) -> None:
        """Note how many templates are done; bring that to the disk now and then."""
        self.done = done
        if self.is_due:
            self.save()

    @property
    def is_due(self) -> bool:
        """Tell whether it is time to save."""
        return time.monotonic() - self._last >= limits.journal_interval

    def save(self) -> None:
        """Bring the progress to the disk, after the elements it speaks of."""
        self._store.flush()
        self._save()
        self._last = time.monotonic()

    def finish(self) -> None:
        """Bring the whole pass to the disk, and then the note that it is complete."""
        self.is_complete = True
        self.save()
        self._store.flush()

    def save_quietly(self) -> None:
        """Save while another error propagates; a second error would add nothing."""
        with contextlib.suppress(StorageError):
            self.save()

    def _save(self) -> None:
        self._store.set_attrs(_notes(self._job, self.done, self.is_complete))
