"""Several arrays together: one commit for all, one refresh of all, and the end of all."""

from __future__ import annotations

import contextlib
import errno
import itertools
import threading
import time
from functools import partial
from operator import add, neg
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from extarray._core._history import mark_of, roll_back
from extarray._core._state import abandon
from extarray.array.array import ExtArray
from extarray.array.life import attach_store, open_in_files, replaced_error, show_store
from extarray.array.resizing import give_back_freed, give_back_outside
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    FormatError,
    StorageError,
)
from extarray.common.forks import in_children
from extarray.grid.bounds import Bounds
from extarray.storage.filesystem import family
from extarray.storage.states import ATTEMPTS, StateReader
from extarray.storage.states import looks as attempts_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from extarray.fetched.heads import Place
    from extarray.grid.bounds import Index
    from extarray.storage.group_member import GroupShare
    from extarray.storage.store import Reader

__all__ = ["close_all", "commit", "refresh"]

_of_thread = threading.local()

# Rounds of looks at arrays that keep changing; a nap in seconds after every so many.
_ROUNDS, _ROUNDS_TO_NAP, _NAP = 20_000, 50, 0.0005


@contextlib.contextmanager
def commit(arrays: Iterable[ExtArray]) -> Iterator[None]:
    """Change several arrays by one commit: a context manager.

    The changes to the arrays in the block count when the block ends, for all of them together: a
    reader that refreshes them together, and any crash, see all of the changes or nothing.  If the
    block raises, all arrays are as before.

    Parameters
    ----------
    arrays : iterable of ExtArray
        Open in mode "r+", or in memory; each once.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        An array twice, one that writers share, a block inside another, an array in the midst of an
        append; an object that is no array.
    ReadOnlyError, ClosedError
    StorageError
        Also at the end of the block; the arrays are as before, unless the message says that they
        have changed.

    Notes
    -----
    A block holds growth of all kinds, `ExtArray.shrink`, and attributes.  The arrays themselves
    show their new state at once, also to other threads of this process; other processes see it at
    the end.  Existing elements are no part of it: an assignment to them takes effect at once and is
    not taken back.  Parts that the block has cut off cannot grow again in it, and its arrays can be
    neither closed nor flushed.  If an exception takes growth back while another thread still writes
    to it, or a view of it is left, the grid keeps its chunks, outside the bounds.

    The block belongs to the thread that enters it; other threads that want to change the bounds or
    the attributes of one of the arrays wait until it ends.

    Other processes see all of the changes or none, also if this process is killed.  The end of the
    block waits for the disk if one of the arrays has ``durability="commit"``: then a loss of power
    leaves all or none, too.  Otherwise it leaves each array whole, perhaps at another commit than
    the others, which `check` tells.  See :doc:`/explanation/consistency`.

    Examples
    --------
    >>> import extarray as xa
    >>> data, times = xa.zeros((0, 3)), xa.zeros((0,), "i8")
    >>> with xa.commit([data, times]):
    ...     data.append([[1, 2, 3]])
    ...     times.append([1700000000])
    >>> data.shape, times.shape
    ((1, 3), (1,))
    """
    members = _checked(arrays)
    for array in members:
        # Check before taking locks: two openings of one array would wait for each other.
        array._check_sole(f"commit {array._name()} with others")
    block = _Block(members)
    if getattr(_of_thread, "inside", False):
        raise ArgumentError("cannot nest commits of several arrays; name all arrays in one commit")
    with block.locked():
        _of_thread.inside = True
        try:
            block.begin()
            yield
            block.commit()
        except BaseException:
            block.roll_back()
            raise
        finally:
            _of_thread.inside = False
            block.members = []  # so that a forked child has nothing to forget


def refresh(arrays: Iterable[ExtArray]) -> bool:
    """Take up what writers have committed to several arrays, in states that existed together.

    Parameters
    ----------
    arrays : iterable of ExtArray
        Those open for writing, and those in memory, do not change.

    Returns
    -------
    bool
        Whether anything was new.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        An array twice; an object that is no array.
    ClosedError, CorruptError, TruncatedError
    ReplacedError
        The files of one were replaced, removed or moved, and nothing is new in the others.
    StorageError
        The arrays change so fast that no two looks agree (EAGAIN); they are as before.

    Notes
    -----
    Changes that one `commit` made together appear together.  `ExtArray.refresh` of one array after
    the other could show one before such a commit and the other after it.  Takes no lock, and never
    blocks a writer.

    Examples
    --------
    >>> import extarray as xa
    >>> xa.refresh([xa.zeros((2, 2)), xa.zeros((2,))])
    False
    """
    members = [array for array in _checked(arrays) if array._store.now.follows]
    # Only arrays that are published have one.
    places = {getattr(array._store.files, "place", None) for array in members}
    place = places.pop() if len(places) == 1 else None
    if place is not None:
        return _refresh_published(members, place)
    with locked(members):
        for array in members:
            array._check()
            if array.mode == "r":
                array._check_sole(f"refresh {array._name()} with others")
        is_new = False
        for _ in range(ATTEMPTS):
            # Take up a new axis in each array alone: a common commit never adds one.
            for array in members:
                if _files(array).was_superseded():
                    is_new |= array.refresh()
            with contextlib.suppress(_Superseded):
                is_new |= _refresh(members)
                break
        else:
            raise StorageError(
                errno.EAGAIN, "the arrays keep gaining axes while they are refreshed"
            )
        if not is_new:
            for array in members:
                if array.replaced:
                    raise replaced_error(array)
        return is_new


def close_all() -> None:
    """Close all arrays in files that this process has open.

    Raises
    ------
    ArgumentError
        One is inside a block of `extarray.commit`, and stays open; all others are closed.
    TruncatedError
        A ValueError: another program has cut the file of a writer off.  All are closed.

    Notes
    -----
    Arrays that other threads use are closed, too: their transfers end with their data or with a
    `ClosedError`, and `close_all` waits for changes of bounds under way.  Arrays in memory stay
    open, as their elements are nowhere else.  Arrays under a communicator are closed in the order
    in which they were opened; all of their ranks must call this.

    Python does the same at exit for arrays of one process that no thread is changing then; a writer
    among them raises a ``ResourceWarning``, as one that is forgotten earlier does.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.create("scene", (2, 3))
    >>> xa.close_all()
    >>> a.closed
    True
    """
    with contextlib.ExitStack() as steps:  # close all, whatever fails
        for array in reversed(open_in_files()):
            steps.callback(array.close)


def _checked(arrays: Iterable[ExtArray]) -> list[ExtArray]:
    """Return the arrays; raise if one is closed or given twice."""
    members = [] if isinstance(arrays, ExtArray) else list(arrays)
    if isinstance(arrays, ExtArray) or not all(isinstance(a, ExtArray) for a in members):
        raise ArgumentTypeError("give a list of extarray arrays, such as [a, b]")
    for array in members:
        array._check()
    if len({array._handle for array in members}) < len(members):
        raise ArgumentError("the same array is given twice; give each array once")
    return members


def _files(array: ExtArray) -> Reader:
    """Return the store of an array that is open for reading, which has files."""
    files = array._store.files
    assert files is not None
    return files


def locked(members: list[ExtArray]) -> contextlib.ExitStack:
    """Take the locks under which the bounds of arrays change.

    All threads take them in the same order, so that no deadlock is possible.

    Parameters
    ----------
    members : list of ExtArray
    """
    with contextlib.ExitStack() as locks:
        for array in sorted(members, key=lambda array: array._handle):
            locks.enter_context(array._writers.resizing)
        return locks.pop_all()


# -- one commit ----------------------------------------------------------------------------------


class _Block:
    """Arrays that one commit will change."""

    def __init__(self, members: list[ExtArray]) -> None:
        self.members = members
        self.marks: list[tuple[Any, Index]] = []  # of held arrays: history marks and origins
        in_children(self, _Block.forget)

    def locked(self) -> contextlib.ExitStack:
        return locked(self.members)

    def begin(self) -> None:
        """Hold the commits of all arrays."""
        for array in self.members:
            array._check("commit")
            if array._filling:
                raise ArgumentError(
                    f"cannot commit {array._name()} with others during an append to it"
                )
        for array in self.members:
            self.marks.append((mark_of(array.axial), array.origin))
            array._store.group.hold()

    def _held(self) -> list[tuple[ExtArray, tuple[Any, Index]]]:
        """Return the held arrays with their marks and origins, and forget the marks."""
        held = list(zip(self.members, self.marks, strict=False))
        self.marks = []
        return held

    def roll_back(self) -> None:
        """Restore all held arrays to their states at the beginning of the block."""
        with contextlib.ExitStack() as steps:  # restore all, whatever fails
            for array, before in self._held():
                steps.callback(_take_back, array, *before)

    def commit(self) -> None:
        """Commit all changes by one write; leave an error before it to `roll_back`."""
        if not self.marks:  # in a forked child
            return
        shares = [array._store.group.changed for array in self.members]
        changed = [share for share in shares if share is not None]
        failure: BaseException | None = None
        try:
            if changed:
                _decide(*changed)
        except BaseException as error:
            if not changed[0].decided:
                raise
            failure = error  # after the deciding write: the changes count
        if len(changed) > 1 and _are_durable(changed):
            try:
                changed[0].secure()
            except BaseException as error:  # noqa: BLE001 -- raised at the end
                failure = error
                for share in changed:
                    share.keep_cut()
        with contextlib.ExitStack() as steps:  # finish all, also after an interrupt
            for array, _ in self._held():
                steps.callback(_finish, array)
        if failure is not None:
            raise failure

    def forget(self) -> None:
        """Leave the block in a forked child: only the parent goes on with it."""
        _of_thread.inside = False
        marks, self.marks = self.marks, []
        for array, before in itertools.zip_longest(self.members, marks):
            store = array._store
            now = store.now
            if now.held is None:  # or another thread's, and the files were read anew
                continue
            if store.group.forget():
                roll_back(array.axial, before[0])
                array._set_bounds(now.state.shape, now.state.offset)


def _decide(first: GroupShare, *others: GroupShare) -> None:
    """Make the changes of stores count together; the first store decides."""
    if not others:
        first.decide_alone()
        return
    group, durable = uuid4().bytes, _are_durable([first, *others])
    first.list_members(others)
    for share in others:
        share.prepare(group, first, durable)
    first.decide(group, durable)


def _are_durable(shares: Sequence[GroupShare]) -> bool:
    """Tell whether a commit of stores waits for the disk: it does if one of them is durable."""
    return any(share.pair.is_durable for share in shares)


def _take_back(array: ExtArray, mark: Any, origin: Index) -> None:
    """Restore an array to its state at a mark."""
    store = array._store
    now = store.now
    if now.held is None:  # the block failed before it held this array
        return
    grown = store.group.roll_back()
    if not grown:  # nor has any chunk come
        roll_back(array.axial, mark)
        array._set_bounds(now.state.shape, now.state.offset)
        return
    # Elements that the grid has before the old index 0; the growth may have been at the start.
    offset = tuple(map(sum, zip(array.origin, array._frame.offset, map(neg, origin), strict=True)))
    now.users.turn()
    array._set_bounds(now.state.shape, offset)  # from now on, nobody finds the new chunks
    bounds = now.state.shape, now.state.offset
    is_used = now.users.are_left(now.users.ended) or not array._undo_growth(*bounds, mark)
    if is_used:
        if _keep_room(array, offset):
            return
        roll_back(array.axial, mark)
        array._set_bounds(*bounds)
    store.group.take_back(partial(abandon, array))
    array._forget_touched()
    attach_store(array)


def _keep_room(array: ExtArray, offset: Index) -> bool:
    """Keep the chunks of a growth taken back, outside the bounds; return whether that worked.

    A write of another thread, or a view, may still use these chunks, and would meet the chunks of a
    later growth at the same addresses.
    """
    store, axial = array._store, array.axial
    bounds = Bounds(store.now.state.shape, offset, axial.grid)
    try:
        store.commit(bounds, axial, array._grid_bytes, False)
    except StorageError:
        return False
    with contextlib.suppress(StorageError):  # space that cannot be given back stays taken
        give_back_outside(array, offset, tuple(map(add, offset, bounds.shape)))
    return True


def _finish(array: ExtArray) -> None:
    """Make the state of an array an ordinary one, and give back what the block cut off."""
    array._store.group.finish()
    with contextlib.suppress(StorageError):  # space that cannot be given back stays taken
        give_back_freed(array)


class _Superseded(Exception):  # noqa: N818 -- no error: look again
    """Another file holds the metadata of an array by now."""


# -- one look ------------------------------------------------------------------------------------


def _refresh_published(members: list[ExtArray], place: Place) -> bool:
    """Take up the states of arrays of a published group that one head of it has."""
    with locked(members), place.one_look():
        for array in members:
            store: Any = array._store.files
            store.prepare()
        are_new = [array.refresh() for array in members]
    return any(are_new)


def _refresh(members: list[ExtArray]) -> bool:
    """Take up states of readers that existed at one moment."""
    readers = [(array, _files(array)) for array in members]
    with contextlib.ExitStack() as stack:
        found = _updates(readers, stack)
    replayed: list[tuple[ExtArray, Any]] = []
    try:
        for array, store, update in found:
            replayed.append((array, mark_of(array.axial)))
            store.replay(update, array.axial)
    except BaseException:
        for array, mark in replayed:
            roll_back(array.axial, mark)
        raise
    for array, store, update in found:
        store.adopt(update)
        show_store(array, array.axial)
    return bool(found)


def _updates(
    readers: list[tuple[ExtArray, Reader]], stack: contextlib.ExitStack
) -> list[tuple[ExtArray, Reader, Any]]:
    """Return the news of arrays at one moment; the stack closes the coordinators asked."""
    coordinators: dict[tuple[str, bytes], StateReader] = {}
    looks: list[Callable[[], Any]] = [store.look for _, store in readers]
    files: list[Any] = [store.now for _, store in readers]
    attempts = attempts_at(*(now.data for now in files))
    for seen in moments(looks):
        asked = len(coordinators)
        found = []
        try:
            for array, store in readers:
                state, pendings = store.parse(seen[store.look])
                for pending in pendings:
                    key = store.coordinator_of(pending), pending.coordinator
                    if key not in coordinators:
                        coordinators[key] = stack.enter_context(store.probe(*key))
                        looks.append(coordinators[key].newest_group)
                    elif seen.get(coordinators[key].newest_group) == pending.group:
                        state = pending.state
                        break
                if state.sequence > store.sequence:
                    with family("cannot refresh '{}' together with others", store.now.path):
                        cuts = seen[store.look][0]
                        update = store.read_update(state, array.axial, cuts)
                    found.append((array, store, update))
        except FormatError:  # damaged, or overtaken by a writer
            if next(attempts, False) is False:  # none are left
                raise
            continue
        if len(coordinators) == asked:
            looked_at: list[Any] = [*coordinators.values(), *(store for _, store in readers)]
            if any(states.was_superseded() for states in looked_at):
                raise _Superseded
            return found
    raise StorageError(
        errno.EAGAIN,
        f"{len(readers)} arrays keep changing while they are refreshed; refresh fewer at a time",
    )


def moments(looks: list[Callable[[], Any]]) -> Iterator[dict[Callable[[], Any], Any]]:
    """Yield results of several looks that held at one moment; try again for a while.

    Each round takes all looks.  If no look but the first has changed since the round before, all
    others had their present results at the moment of that first look.

    Parameters
    ----------
    looks : list of callable
        Each returns a value to compare for equality.  The list is reordered.
    """
    before: dict[Callable[[], Any], Any] = {}
    for number in range(1, _ROUNDS):
        now = {look: look() for look in looks}
        changed = [look for look in looks if look not in before or before[look] != now[look]]
        if changed in ([], looks[:1]):
            yield now
        else:  # put the look that changes often first
            looks.remove(changed[-1])
            looks.insert(0, changed[-1])
        before = now
        if number % _ROUNDS_TO_NAP == 0:
            time.sleep(_NAP)
