"""The place of an object: a URL, or a path in a store or a file system; its relatives; pickles.

Nothing secret is in a location's text, in errors, or in pickles that may be kept: user names and
passwords, the query of a URL (a presigned URL is a credential), and all options but those known to
be harmless.  Pickles on their way to another process, by multiprocessing or dask's distributed,
keep everything: they go through memory, and the process could not read otherwise.
"""

from __future__ import annotations

import os
import re
import sys
import urllib.parse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from extarray.common.errors import ArgumentError, ArgumentTypeError, MissingExtraError
from extarray.common.extras import require
from extarray.remote import filesystems, obstores
from extarray.remote.options import Policy, Untranslatable, harmless, redacted, split_policy
from extarray.remote.urls import OF_SCHEME, URL, is_filesystem, is_store, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from extarray.remote.answers import Answer, Backend, Request

__all__ = ["Location"]

#: Modules through which pickles go to other processes, unless modules of `_KEEPERS` put them aside.
_SENDERS = (
    "dask.multiprocessing",
    "distributed.protocol",
    "joblib.externals.loky.backend",
    "loky.backend",
    "multiprocessing.reduction",
)
_KEEPERS = ("distributed.spill", "zict")

#: Stores of obstore whose URLs others can read.
_PUBLIC_STORES = ("S3Store", "GCSStore", "AzureStore", "HTTPStore")


def _is_root(scheme: str, root: str) -> bool:
    """Tell whether a URL's text before the path can be a host with port, or a bucket."""
    if scheme in {"http", "https"}:
        return re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:@\[\]]+)(:\d*)?", root) is not None
    return ":" not in root and (scheme == "az" or "@" not in root)


class Location:
    """One object, or the place where objects with longer names lie; see `Location.of`.

    Attributes
    ----------
    url : str
        Without user, password and query, for people to read.
    name : str
        The last part of the path.
    policy : Policy
        How requests are made.
    """

    __slots__ = ("_path", "_source")

    def __init__(self, source: _Source, path: str) -> None:
        self._source = source
        self._path = path

    @classmethod
    def of(cls, target: Any, storage_options: Mapping[str, Any] | None = None) -> Location:
        """Return the location that a user has named.

        Parameters
        ----------
        target : str, tuple, or object of fsspec
            A URL: ``https``, ``http``, ``s3``, ``gs``, ``az`` (``abfs``), or another one that
            fsspec reads; or (store of obstore, path); or (file system of fsspec, path); or what
            has both, such as ``fs.get_mapper(path)``, ``fsspec.open(url)`` and a `UPath`.
        storage_options : mapping, optional
            For URLs: credentials and settings, as fsspec, pandas and xarray name them (``anon``,
            ``key``, ``secret``, ``endpoint_url``, ``headers``, ``account_name``, ...) or as
            obstore does (``access_key_id``, ``region``, ``client_options``, ...).  For all:

            ``coalesce``
                Most bytes between two ranges that one request reads; 512 KiB by default.
            ``concurrency``
                Most requests at the same time; 16 by default.
            ``retries``
                Most attempts after the first one that failed; 5 by default.
            ``timeout``
                Seconds in which the next 128 KiB have to come; 30 by default.

        Returns
        -------
        Location

        Raises
        ------
        ArgumentError, ArgumentTypeError
            No such scheme or option.
        MissingExtraError
            A library is missing.

        Examples
        --------
        >>> Location.of("https://user:password@host/scene.xap?signature=abc").url
        'https://host/scene.xap'
        """
        if isinstance(target, Location):
            if storage_options:
                raise ArgumentError("a location has its options already")
            return target
        policy, options = split_policy(storage_options or {})
        if isinstance(target, str):
            return cls._of_url(target, policy, options)
        pair = target if isinstance(target, tuple) else parts_of(target)
        if pair is None or len(pair) != 2 or not isinstance(pair[1], str):
            raise ArgumentTypeError(
                "a remote array is named by a URL, or by (store or file system, path), not by a "
                f"{type(target).__name__}"
            )
        given, path = pair
        if options:
            raise ArgumentError(
                f"storage_options has {', '.join(map(repr, options))}, but a store or file system "
                "has its options already"
            )
        if is_store(given):
            return cls(_StoreSource(policy, given), path)
        if is_filesystem(given):
            return cls(_FileSystemSource(policy, given), path)
        raise ArgumentTypeError(
            f"a {type(given).__name__} is neither a store of obstore nor a file system of fsspec"
        )

    @classmethod
    def _of_url(cls, url: str, policy: Policy, options: dict[str, Any]) -> Location:
        match = re.match(URL, url)
        if match is None:
            raise ArgumentError(f"{redacted(url)!r} is no URL, such as 'https://host/scene.xap'")
        scheme = OF_SCHEME.get(match[1].lower())
        if match[2] == "::" or scheme is None:
            return cls(_OtherSource(policy, url, options), "")
        rest = url[match.end() :]
        root, _, path = rest.partition("/")
        userinfo = query = ""
        if scheme in {"http", "https"}:
            path, _, _ = path.partition("#")
            path, mark, asked = path.partition("?")
            query = mark + asked
            userinfo, _, root = root.rpartition("@")
            path = urllib.parse.quote(path, safe="/%!$&'()*+,;=:@~")
        if not root or "?" in root or "#" in root:
            raise ArgumentError(f"{redacted(url)!r} names no host or bucket")
        if not _is_root(scheme, root):  # part of a password, perhaps
            raise ArgumentError(
                f"the {scheme} URL does not begin with a host or a bucket; write '/', '?', '#' and "
                "'@' in a password as %2F, %3F, %23 and %40, and give keys of buckets in "
                "storage_options"
            )
        source = _UrlSource(policy, scheme, root, userinfo, query, options)
        source.check()
        return cls(source, path)

    @property
    def url(self) -> str:
        """The URL without user, password and query."""
        return self._source.text(self._path)

    @property
    def name(self) -> str:
        """The last part of the path."""
        text = self.url.rstrip("/").rpartition("/")[2]
        return urllib.parse.unquote(text) if self._source.is_quoted else text

    @property
    def policy(self) -> Policy:
        """Rules for requests: their number, patience, attempts."""
        return self._source.policy

    @property
    def path(self) -> str:
        """The object's name for its backend."""
        return self._path

    @property
    def is_incomplete(self) -> bool:
        """True if this comes from a pickle that had to leave something secret out."""
        return self._source.is_incomplete

    @property
    def is_public(self) -> bool:
        """True if `url` leads others to the object, who may need credentials.

        A query may tell the version of an object, and a store may be in memory.
        """
        return self._source.is_public and "?" not in self._path

    def backend(self) -> Backend:
        """Return what makes requests to this location and its relatives."""
        return self._source.backend()

    def child(self, name: str) -> Location:
        """Return the object that lies in this folder; `name` may have parts, but no "..".

        Examples
        --------
        >>> Location.of("https://host/folder").child("a b.xmd").url
        'https://host/folder/a%20b.xmd'
        """
        parts = name.split("/")
        if not name or any(part in {"", ".", ".."} for part in parts) or not name.isprintable():
            raise ArgumentError(f"{name!r} is not the name of an object in a folder")
        return self._source.moved(self._path, "/", name)

    def suffixed(self, suffix: str) -> Location:
        """Return the object beside this one whose name has a suffix more.

        Examples
        --------
        >>> Location.of("s3://bucket/live").suffixed(".xmd").url
        's3://bucket/live.xmd'
        """
        return self._source.moved(self._path, "", suffix)

    def __repr__(self) -> str:
        return f"<Location {self.url}>"

    def __str__(self) -> str:
        return self.url

    def __reduce__(self) -> tuple[Callable[..., Location], tuple[Any, ...]]:
        return Location, (self._source, self._path)


class _Source:
    """A bucket, server or file system, which relatives share, with all that is secret."""

    is_quoted = False
    is_public = True

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.is_incomplete = False  # secrets were left out of a pickle
        self._backend: Backend | None = None
        self._process = 0

    def backend(self) -> Backend:
        # A forked child opens its own.  Two threads may both open one, which does no harm.
        backend = self._backend
        if backend is None or self._process != os.getpid():
            backend = self._backend = self.open()
            self._process = os.getpid()
        return backend

    def open(self) -> Backend:
        raise NotImplementedError

    def text(self, path: str) -> str:
        raise NotImplementedError

    def moved(self, path: str, between: str, name: str) -> Location:
        if between:
            path = f"{path.rstrip('/')}{between}".lstrip("/")  # none before the first name
        return Location(self, f"{path}{name}")

    def everything(self) -> tuple[Any, ...]:
        """Return the arguments that make this source again."""
        raise NotImplementedError

    def what_may_be_kept(self) -> tuple[Any, ...]:
        """Return those arguments without anything secret."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __copy__(self) -> _Source:
        return self

    def __deepcopy__(self, memo: object) -> _Source:
        return self

    def __reduce__(self) -> tuple[Callable[..., _Source], tuple[Any, ...]]:
        everything = self.everything()
        if _goes_to_a_process():
            return _again, (type(self), everything, self.is_incomplete)
        kept = self.what_may_be_kept()
        return _again, (type(self), kept, self.is_incomplete or kept != everything)


def _again(kind: type[_Source], arguments: tuple[Any, ...], is_incomplete: bool) -> _Source:
    source = kind(*arguments)
    source.is_incomplete = is_incomplete
    return source


def _goes_to_a_process() -> bool:
    """Tell whether whoever pickles sends the pickle to another process."""
    frame: FrameType | None = sys._getframe(2)
    is_sent = False
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(_KEEPERS):
            return False
        is_sent = is_sent or name.startswith(_SENDERS)
        frame = frame.f_back
    return is_sent


class _UrlSource(_Source):
    """A bucket or web server that obstore reads, or fsspec in its place."""

    def __init__(
        self,
        policy: Policy,
        scheme: str,
        root: str,
        userinfo: str,
        query: str,
        options: dict[str, Any],
    ) -> None:
        super().__init__(policy)
        self.scheme, self.root = scheme, root
        self.userinfo, self.query, self.options = userinfo, query, options
        self.is_quoted = scheme in {"http", "https"}
        self.is_public = not query

    def check(self) -> None:
        """Raise an error for options that cannot be meant, while the user is there."""
        self.backend()

    def text(self, path: str) -> str:
        return f"{self.scheme}://{self.root}/{path}"

    def moved(self, path: str, between: str, name: str) -> Location:
        if self.is_quoted:
            name = urllib.parse.quote(name)
        return super().moved(path, between, name)

    def open(self) -> Backend:
        if obstores.stayed_in_parent():
            try:
                return self._by_fsspec()
            except (ArgumentError, MissingExtraError):
                pass  # obstore tells what to do
        try:
            return obstores.UrlBackend(
                self.scheme, self.root, self.options, self.policy, self.userinfo, self.query
            )
        except (Untranslatable, MissingExtraError) as error:
            reason: Exception = error
        except ArgumentError:
            raise
        except Exception as error:  # noqa: BLE001 -- obstore raises errors of several kinds
            names = ", ".join(map(repr, self.options)) or "none"
            reason = ArgumentError(
                f"obstore does not take these storage_options for {self.scheme} URLs: {names} "
                f"({type(error).__name__})"
            )
        # Outside of the handler: errors of obstore may quote options.
        if isinstance(reason, ArgumentError):
            raise reason
        try:
            return self._by_fsspec()
        except MissingExtraError:
            if isinstance(reason, MissingExtraError):
                raise reason from None
            raise ArgumentError(
                f"obstore has no option {reason} for {self.scheme} URLs; fsspec may have, but it, "
                "or its package for these URLs, is not installed"
            ) from None

    def _by_fsspec(self) -> Backend:
        login = f"{self.userinfo}@" if self.userinfo else ""
        fs, root = filesystems.make_filesystem(f"{self.scheme}://{login}{self.root}", self.options)
        return _Below(filesystems.backend_of(fs), f"{root.rstrip('/')}/", self.query)

    def everything(self) -> tuple[Any, ...]:
        return (
            self.policy,
            self.scheme,
            self.root,
            self.userinfo,
            self.query,
            self.options,
        )

    def what_may_be_kept(self) -> tuple[Any, ...]:
        return self.policy, self.scheme, self.root, "", "", harmless(self.options)


class _Below:
    """Requests to a file system, by paths below a root of it."""

    def __init__(self, backend: Backend, root: str, query: str) -> None:
        self._backend = backend
        self._root = root
        self._query = query

    async def get(self, request: Request) -> Answer:
        path = f"{self._root}{request.path}{self._query}"
        return await self._backend.get(replace(request, path=path))


class _OtherSource(_Source):
    """A URL that fsspec alone reads; a relative's path is what its URL has more."""

    def __init__(self, policy: Policy, url: str, options: dict[str, Any]) -> None:
        super().__init__(policy)
        self.base, self.options = url, options
        self.is_public = "?" not in url

    def open(self) -> Backend:
        fs, path = filesystems.make_filesystem(self.base, self.options)
        return _Below(filesystems.backend_of(fs), path, "")

    def text(self, path: str) -> str:
        return redacted(self.base) + path

    def moved(self, path: str, between: str, name: str) -> Location:
        return Location(self, f"{path}{between}{name}")

    def everything(self) -> tuple[Any, ...]:
        return self.policy, self.base, self.options

    def what_may_be_kept(self) -> tuple[Any, ...]:
        return self.policy, redacted(self.base), harmless(self.options)


class _StoreSource(_Source):
    """A store of obstore that the user gives."""

    def __init__(
        self, policy: Policy, store: Any, kept: tuple[str, Any, dict[str, Any]] | None = None
    ) -> None:
        super().__init__(policy)
        self._store = store
        self._kept = kept  # what a pickle has instead of the store
        self.is_public = self.description()[0] in _PUBLIC_STORES

    def open(self) -> Backend:
        if self._store is None and self._kept is not None:
            name, arguments, options = self._kept
            stores = require("obstore.store", "remote", "reading from a bucket")
            self._store = getattr(stores, name)(*arguments, **options)
        return obstores.StoreBackend(self._store)

    def text(self, path: str) -> str:
        name, arguments, options = self.description()
        root = arguments[0] if arguments else options.get("bucket") or name
        if "://" not in root:
            scheme = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "az"}.get(name, name)
            root = f"{scheme}://{root}"
        prefix = str(options.get("prefix") or "").strip("/")
        return "/".join(filter(None, [root.rstrip("/"), prefix, path]))

    def description(self) -> tuple[str, Any, dict[str, Any]]:
        """Return the class of the store, and its arguments, without anything secret."""
        if self._kept is not None:
            return self._kept
        store = self._store
        url = getattr(store, "url", None)
        arguments = (redacted(url),) if isinstance(url, str) else ()
        options = harmless(dict(getattr(store, "config", None) or {}))
        bucket = options.pop("bucket", None) or options.pop("container_name", None)
        if bucket is not None:
            arguments = (bucket,)
        if getattr(store, "prefix", None):
            options["prefix"] = str(store.prefix)
        client = harmless(dict(getattr(store, "client_options", None) or {}))
        if client:
            options["client_options"] = client
        return type(store).__name__, arguments, options

    def everything(self) -> tuple[Any, ...]:
        return self.policy, self._store, self._kept

    def what_may_be_kept(self) -> tuple[Any, ...]:
        return self.policy, None, self.description()


class _FileSystemSource(_Source):
    """A file system of fsspec that the user gives."""

    def __init__(
        self, policy: Policy, fs: Any, kept: tuple[str, dict[str, Any]] | None = None
    ) -> None:
        super().__init__(policy)
        self._fs = fs
        self._kept = kept

    def open(self) -> Backend:
        if self._fs is None and self._kept is not None:
            fsspec = require("fsspec", "fsspec", "reading through a file system")
            self._fs = fsspec.filesystem(self._kept[0], **self._kept[1])
        return filesystems.backend_of(self._fs)

    def text(self, path: str) -> str:
        protocol = self.description()[0]
        path = redacted(path)
        return path if "://" in path else f"{protocol}://{path}"

    def description(self) -> tuple[str, dict[str, Any]]:
        """Return the protocol of the file system, and its options without anything secret."""
        if self._kept is not None:
            return self._kept
        protocol = self._fs.protocol
        name = protocol if isinstance(protocol, str) else protocol[0]
        return name, harmless(getattr(self._fs, "storage_options", None) or {})

    def everything(self) -> tuple[Any, ...]:
        return self.policy, self._fs, self._kept

    def what_may_be_kept(self) -> tuple[Any, ...]:
        return self.policy, None, self.description()
