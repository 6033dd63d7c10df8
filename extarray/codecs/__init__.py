"""Codecs: chunks become smaller payloads, and payloads chunks again.

From the top down; each module uses only modules below it:

``zarr``
    Codecs as Zarr has them: their names in its metadata, and chunks in their form.
``payloads``
    Payloads of chunks: made by a codec, and decoded.
``libraries``
    The libraries that compress bytes: zstd, LZ4, zlib, and those that other packages register.
``codec``
    `Codec`, which users name, and the numbers that files have for codecs and filters.
``rounding``
    Rounding of mantissas, which makes floats compress.
``_frames``
    Frames, decoded without the GIL.
``_filters``
    Byte and bit shuffle; chunks of one element.

May use: common.
"""
