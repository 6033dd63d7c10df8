"""Arrays as xarray datasets, and datasets as arrays.

xarray finds the backend by itself::

    ds = xr.open_dataset("scene.xmd")                      # or engine="extarray"
    ds = xr.open_dataset("folder", engine="extarray")      # of several arrays

Importing this module adds the accessors ``extarray`` to xarray's classes::

    import extarray.interop.xarray
    da.extarray.to_extarray("scene", append_dim="time")

Needs xarray, the extra ``[xarray]``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from extarray.common.errors import ArgumentError, MissingExtraError
from extarray.common.extras import require
from extarray.common.on_error import OnError
from extarray.fetched.paths import RemotePath, local_or_remote
from extarray.format.suffixes import PACKED, PAIR, file_names
from extarray.interop.xarray_options import Options
from extarray.interop.xarray_store import (
    ArrayStore,
    FolderStore,
    arrays_in,
    groups_in,
    is_group,
)
from extarray.interop.xarray_write import write_array, write_dataset, write_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["ExtArrayBackend", "ExtArrayDataArray", "ExtArrayDataTree", "ExtArrayDataset"]

xr: Any = require("xarray", "xarray", "the xarray backend")

Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]


class ExtArrayBackend(xr.backends.BackendEntrypoint):  # type: ignore[misc]
    """The engine "extarray" of `xarray.open_dataset`.

    Examples
    --------
    >>> import xarray as xr, extarray as xa
    >>> a = xa.create("scene", shape=(2, 3), dims=("y", "x"), attrs={"unit": "mm"})
    >>> a.close()
    >>> with xr.open_dataset("scene.xmd") as ds:
    ...     ds.scene.dims, ds.scene.attrs
    (('y', 'x'), {'unit': 'mm'})
    """

    description: ClassVar[str] = "Open extendible arrays (.xmd, .xta, .xap), and folders of them"
    supports_groups: ClassVar[bool] = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Tell whether a path names an array, a packed file, or a folder of arrays."""
        with suppress(ArgumentError, MissingExtraError):
            found = local_or_remote(filename_or_obj)
            if found is not None:  # other formats lie on servers, too
                return found.packed() is not None or str(filename_or_obj).endswith(PAIR)
        try:
            path = Path(filename_or_obj)
        except TypeError:
            return False
        if path.suffix in (*PAIR, PACKED):
            return True
        return os.path.exists(file_names(path)[0]) or (path.is_dir() and bool(arrays_in(path)))

    def open_dataset(
        self,
        filename_or_obj: str | os.PathLike[str],
        *,
        mask_and_scale: bool = True,
        decode_times: Any = True,
        concat_characters: bool = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        storage_options: Mapping[str, Any] | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Open an array, or a folder of arrays, as a dataset.

        Parameters
        ----------
        filename_or_obj : str or PathLike
            A pair of files, with or without suffix, a folder, or a packed file; also a URL, as for
            `extarray.open` and `extarray.open_group`.
        mask_and_scale, decode_times, decode_coords, drop_variables, use_cftime, decode_timedelta
            As for `xarray.open_dataset`.
        concat_characters : bool
            Decode byte strings with the attribute ``"_Encoding"``, and join the characters of texts
            in arrays that were made of netCDF (``"char_dim_name"`` says so).  Other arrays of
            single bytes are not joined.
        storage_options
            For URLs, as for `extarray.open`.
        cache_folder : str or PathLike, optional
            For URLs: ``cache`` of `extarray.open`.  xarray has a ``cache`` of its own, which does
            not come here.
        """
        path = _place(filename_or_obj, storage_options, cache_folder)
        return self._open(
            FolderStore(path) if is_group(path) else ArrayStore(path),
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

    def _open(
        self,
        store: FolderStore | ArrayStore,
        mask_and_scale: bool = True,
        decode_times: Any = True,
        concat_characters: bool = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
    ) -> Any:
        """Return the dataset of a store, and close the store."""
        store.decodes_text = concat_characters
        store.shows_splits = True
        with OnError(store.close):
            dataset = xr.backends.StoreBackendEntrypoint().open_dataset(
                store,
                mask_and_scale=mask_and_scale,
                decode_times=decode_times,
                concat_characters=False,
                decode_coords=decode_coords,
                drop_variables=drop_variables,
                use_cftime=use_cftime,
                decode_timedelta=decode_timedelta,
            )
            if decode_coords:
                dataset = dataset.set_coords(store.coordinate_names & set(dataset.variables))
            dataset.set_close(store.close)
        return dataset

    def open_groups_as_dict(
        self,
        filename_or_obj: str | os.PathLike[str],
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
        **decoders: Any,
    ) -> dict[str, Any]:
        """Open a group and all groups below it as a dict of datasets by path.

        Parameters
        ----------
        filename_or_obj : str or PathLike
            A folder or a packed file.
        drop_variables, **decoders
            As for `open_dataset`.
        group : str, optional
            Path of the group to begin with.
        storage_options, cache_folder
            As for `open_dataset`.
        """
        path = _place(filename_or_obj, storage_options, cache_folder)
        if group is not None and group.strip("/"):
            path = _below(path, group.strip("/"))
        datasets: dict[str, Any] = {}
        with OnError(_close_all, datasets):
            for name in groups_in(path):
                store = FolderStore(_below(path, name) if name else path, is_empty=True)
                datasets[f"/{name}"] = self._open(store, drop_variables=drop_variables, **decoders)
        return datasets

    def open_datatree(
        self,
        filename_or_obj: str | os.PathLike[str],
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        **decoders: Any,
    ) -> Any:
        """Open a group and all groups below it as a tree.

        Parameters
        ----------
        filename_or_obj, drop_variables, group, **decoders
            As for `open_groups_as_dict`.
        """
        datasets = self.open_groups_as_dict(
            filename_or_obj, drop_variables=drop_variables, group=group, **decoders
        )
        with OnError(_close_all, datasets):
            tree = xr.DataTree.from_dict(datasets)
        for name, dataset in datasets.items():
            tree[name].set_close(dataset._close)
        return tree


def _place(given: Any, storage_options: Any, folder: Any) -> str | RemotePath:
    """Return the path that a user has given."""
    found = local_or_remote(given, storage_options, folder)
    return os.path.expanduser(os.fspath(given)) if found is None else found


def _below(path: str | RemotePath, name: str) -> str | RemotePath:
    return os.path.join(path, name) if isinstance(path, str) else path / name


def _close_all(datasets: dict[str, Any]) -> None:
    for dataset in datasets.values():
        dataset.close()


@xr.register_dataarray_accessor("extarray")
class ExtArrayDataArray:
    """The accessor ``extarray`` of a DataArray."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def to_extarray(
        self,
        path: str | os.PathLike[str],
        chunks: int | Sequence[int] | Mapping[str, int] | None = None,
        *,
        mode: Literal["w-", "w"] | str = "w-",
        append_dim: str | None = None,
        side: Literal["end", "start"] | str = "end",
        region: Mapping[str, slice | str] | str | None = None,
        encoding: Mapping[Any, Any] | None = None,
        casting: Casting | None = None,
        timeout: float | None = 0,
        compute: bool = True,
        verify_integrity: bool = True,
        combine_attrs: Literal["override"] | None = None,
    ) -> Any:
        """Write to an array, or append to it along any dimension.

        Parameters
        ----------
        path : str or PathLike
            Of the pair of files.
        chunks : int, sequence of int, or mapping, optional
            Chunk shape; a mapping gives extents by dimension, and other dimensions are not split.
            None: that of the encoding, or as for `extarray.create`.
        mode : {"w-", "w"}
            Make a new pair of files; replace one.
        append_dim : str, optional
            Append to the pair of files along this dimension, in the stored encodings.
        side : {"end", "start"}
            Append after the last elements, or before the first ones.
        region : dict or "auto", optional
            Only overwrite existing elements: a slice of indices for each named dimension, or
            ``"auto"`` to find the slice by the labels of the coordinate; "auto" alone applies to
            all dimensions with labels.  Other dimensions must be complete.
        encoding : mapping, optional
            Encodings by the names of the array and of its coordinates, as for
            `xarray.Dataset.to_netcdf`; also ``"chunks"``, ``"compression"`` and ``"freeze"`` as for
            `extarray.create`, and ``"significant_bits"`` as for `extarray.from_array`.
        casting : {"no", "equiv", "safe", "same_kind", "unsafe"}, optional
            NumPy's rule for losses when the new values have another dtype than the stored ones.
            None: no loss; values must fit into a dtype of the same kind.
        timeout : float or None
            Seconds that an append waits for another writer of each array; None: forever.
        compute : bool
            False: dask arrays are written later, by computing the returned object.
        verify_integrity : bool
            Refuse to append a label of the dimension that already exists, or is given twice.
        combine_attrs : {"override"}, optional
            Write numbers although their ``"units"``, ``"positive"`` or ``"flag_..."`` differ from
            the stored ones, and keep the stored ones.  None: refuse them.

        Returns
        -------
        None or dask.delayed.Delayed
            With ``compute=False``, an object that writes when computed.

        Raises
        ------
        ExistsError
            A FileExistsError: the pair exists, and `mode` is "w-".
        ShapeError, VariableError, ArgumentError, CastingError
            Options, dimensions, extents, coordinates or values do not fit.  Nothing was written.
        LockedError, StorageError

        Notes
        -----
        The array is read, or computed by dask, in blocks within ``config.max_memory``.  Workers of
        a dask cluster write what they compute, see :doc:`/how-to/dask`.  Coordinates become the
        attribute ``"coords"``; a folder suits large ones better, see
        `ExtArrayDataset.to_extarray`.  An append, including its coordinates, is one commit; labels
        of elements that were cut off are dropped.  A region is written without a lock, by any
        number of processes at the same time; its coordinates must equal the stored ones.  With
        ``compute=False``, files, bounds and coordinates are still written at once.

        Examples
        --------
        >>> import numpy as np, xarray as xr, extarray.interop.xarray
        >>> da = xr.DataArray(np.zeros((2, 3)), {"t": [0, 1]}, ("t", "x"), "level")
        >>> da.extarray.to_extarray("level", chunks={"t": 1})
        >>> (da.assign_coords(t=[2, 3]) + 1).extarray.to_extarray("level", append_dim="t")
        >>> with xr.open_dataarray("level.xmd") as level:
        ...     level.sum("x").values, level.t.values
        (array([0., 0., 3., 3.]), array([0, 1, 2, 3]))
        """
        return write_array(
            self._array,
            path,
            Options(
                modes=("w-", "w"),
                mode=mode,
                append_dim=append_dim,
                side=side,
                region=region,
                chunks=chunks,
                encoding=encoding,
                casting=casting,
                timeout=timeout,
                compute=compute,
                verify_integrity=verify_integrity,
                combine_attrs=combine_attrs,
            ),
        )


@xr.register_dataset_accessor("extarray")
class ExtArrayDataset:
    """The accessor ``extarray`` of a Dataset."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def to_extarray(
        self,
        folder: str | os.PathLike[str],
        chunks: int | Mapping[str, int] | None = None,
        *,
        mode: Literal["w-", "w", "a"] | str = "w-",
        append_dim: str | None = None,
        side: Literal["end", "start"] | str = "end",
        region: Mapping[str, slice | str] | str | None = None,
        encoding: Mapping[Any, Any] | None = None,
        casting: Casting | None = None,
        timeout: float | None = 0,
        compute: bool = True,
        verify_integrity: bool = True,
        combine_attrs: Literal["override"] | None = None,
    ) -> Any:
        """Write to a folder of arrays, or append to them along any dimension.

        Parameters
        ----------
        folder : str or PathLike
            Gets a pair of files for each variable, coordinates included, and ``dataset.json`` for
            the attributes of the dataset.
        chunks : int or mapping, optional
            Chunk extents by dimension (others are not split), or one for all.  None: those of the
            encoding, or as for `extarray.create`.
        mode : {"w-", "w", "a"}
            Write to a folder without arrays; replace a dataset; add or replace variables.
        append_dim : str, optional
            Append along this dimension, in the stored encodings.  Variables without it must equal
            the stored ones.
        side : {"end", "start"}
            Append after the last elements, or before the first ones.
        region : dict or "auto", optional
            Only overwrite existing elements: a slice of indices for each named dimension, or
            ``"auto"`` to find the slice by the labels of the coordinate; "auto" alone applies to
            all dimensions with labels.  Other dimensions must be complete.
        encoding : mapping, optional
            Encodings by names of variables, as for `xarray.Dataset.to_netcdf`; also ``"chunks"``,
            ``"compression"`` and ``"freeze"`` as for `extarray.create`, and ``"significant_bits"``
            as for `extarray.from_array`.
        casting : {"no", "equiv", "safe", "same_kind", "unsafe"}, optional
            NumPy's rule for losses when the new values have another dtype than the stored ones.
            None: no loss; values must fit into a dtype of the same kind.
        timeout : float or None
            Seconds that an append waits for another writer of each array; None: forever.
        compute : bool
            False: dask arrays are written later, by computing the returned object.
        verify_integrity : bool
            Refuse to append a label of the dimension that already exists, or is given twice.
        combine_attrs : {"override"}, optional
            Write numbers although their ``"units"``, ``"positive"`` or ``"flag_..."`` differ from
            the stored ones, and keep the stored ones.  None: refuse them.

        Returns
        -------
        None or dask.delayed.Delayed
            With ``compute=False``, an object that writes when computed.

        Raises
        ------
        ExistsError
            A FileExistsError: the folder has arrays, and `mode` is "w-".
        ShapeError, VariableError, ArgumentError, CastingError
            Options, dimensions, extents, coordinates or values do not fit.  Nothing was written.
        LockedError, StorageError

        Notes
        -----
        A new dataset appears when it is complete.  With mode "w" or "a", all variables are replaced
        in one step: the folder is exchanged for another one, if the system can exchange names (see
        `open_group`).  Other content of the folder, such as groups and foreign files, is kept by
        hard links.  Arrays are replaced one by one only if the folder cannot move, because it is a
        mount point or the working directory of this process, or if hard links are not supported.

        An append is one commit of all arrays that grow.  If one of them grew or shrank alone,
        readers see the elements that all have, and the next append continues from there.  Workers
        of a dask cluster write what they compute, see :doc:`/how-to/dask`.  A region is written
        without a lock, by any number of processes at the same time, its coordinates as well.  With
        ``compute=False``, files, bounds and variables without dask are still written at once.

        Examples
        --------
        >>> import numpy as np, xarray as xr, extarray.interop.xarray
        >>> ds = xr.Dataset({"wind": ("t", [3.0, 4.0]), "rain": ("t", [0, 1])}, {"t": [0, 1]})
        >>> ds.extarray.to_extarray("weather")
        >>> ds.assign_coords(t=[2, 3]).extarray.to_extarray("weather", append_dim="t")
        >>> with xr.open_dataset("weather", engine="extarray") as weather:
        ...     weather.sizes["t"], weather.rain.values
        (4, array([0, 1, 0, 1]))
        """
        return write_dataset(
            self._dataset,
            folder,
            Options(
                modes=("w-", "w", "a"),
                mode=mode,
                append_dim=append_dim,
                side=side,
                region=region,
                chunks=chunks,
                encoding=encoding,
                casting=casting,
                timeout=timeout,
                compute=compute,
                verify_integrity=verify_integrity,
                combine_attrs=combine_attrs,
            ),
        )


@xr.register_datatree_accessor("extarray")
class ExtArrayDataTree:
    """The accessor ``extarray`` of a DataTree."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree

    def to_extarray(
        self,
        folder: str | os.PathLike[str],
        chunks: int | Mapping[str, int] | None = None,
        *,
        mode: Literal["w-", "w"] | str = "w-",
        encoding: Mapping[str, Mapping[Any, Any]] | None = None,
    ) -> None:
        """Write to a group: a folder of arrays and of folders, one for each node.

        Parameters
        ----------
        folder : str or PathLike
            Appears when it is complete.
        chunks : int or mapping, optional
            As for `ExtArrayDataset.to_extarray`.
        mode : {"w-", "w"}
            Make a new folder; replace a group.
        encoding : mapping, optional
            Encodings of `ExtArrayDataset.to_extarray`, by the paths of the nodes ("/", "/north").

        Raises
        ------
        ExistsError
            A FileExistsError: the folder exists, and `mode` is "w-"; or it is not a group.
        ArgumentError, LockedError, StorageError

        Notes
        -----
        A node stores only its own coordinates; those that it inherits are there again when the tree
        is opened.  To append, take the dataset of a node; arrays of several nodes grow together
        with `extarray.Group.extend`.

        Examples
        --------
        >>> import numpy as np, xarray as xr, extarray.interop.xarray
        >>> north = xr.Dataset({"wind": ("t", [3.0, 4.0])})
        >>> tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs={"title": "x"}), "/north": north})
        >>> tree.extarray.to_extarray("stations")
        >>> with xr.open_datatree("stations", engine="extarray") as stations:
        ...     stations["north/wind"].values, stations.attrs
        (array([3., 4.]), {'title': 'x'})
        """
        write_tree(self._tree, folder, mode, chunks, encoding)
