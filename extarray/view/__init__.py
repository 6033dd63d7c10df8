"""A page in the browser that shows arrays: ``extarray view PATH``.

A server on the loopback interface reads what the page shows and no more; the page is plain HTML,
CSS and JavaScript, in ``page/``, and is served as it stands.  Needs Tornado, the extra ``[view]``:
one package without dependencies, which Jupyter and dask use as well.

The address of the page has a token behind ``#``.  Browsers do not send that part: the script of the
page takes it off the address, keeps it for the tab, and sends it in a header with every request for
data.  So it is in no log, in no cookie that another server of the machine would get, and no other
page can make the browser send it.

A page that can be seen has one WebSocket, which brings news of the array; a hidden page has none.
Browsers allow six connections to a server for all tabs together, WebSockets not counted: no request
over those waits for something to happen.

Its modules, from the top down; each uses some of those below it:

``serving``
    The server from start to end: its socket, the browser, Ctrl-C.
``handlers``
    Answers: to whom they are given, and with which headers.
``connections``
    The connections that are open: as many as the process has room for.
``exhibits``
    The arrays that are shown: one, or those of a folder, open for reading.
``planes``
    Planes of an array, with at most as many elements as the screen has pixels, in bounded time.
``growth``
    The growth map: the chunks of a plane, and the growths that adjoined them.
``coordinates``
    Coordinates of elements along an axis, as texts.
``encoding``
    Elements of any data type as numbers that the page can colour, and as texts.

May use: array, and the rooms below it.
"""

from __future__ import annotations

from extarray.view.serving import serve

__all__ = ["serve"]
