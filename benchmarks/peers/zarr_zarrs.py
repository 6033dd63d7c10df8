"""zarr-python with the codec pipeline of zarrs, written in Rust."""

from __future__ import annotations

import zarr
import zarrs

from .zarr_local import Zarr

assert zarrs  # the pipeline is found by its name
zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})


class ZarrWithZarrs(Zarr):
    settings = f"{Zarr.settings}, with the codec pipeline of zarrs {zarrs.__version__}"
