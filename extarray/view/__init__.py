"""A page in the browser that shows arrays: ``extarray view PATH``.

A server on the loopback interface reads only the elements that the page shows; the page is plain
HTML, CSS and JavaScript, in ``page/``, served unchanged.  Needs Tornado, the extra ``[view]``: one
package without dependencies, which Jupyter and dask use as well.

The page's address has a token behind ``#``, a part that browsers do not send.  The page's script
removes the token from the address, keeps it for the tab, and sends it in a header with every
request for data.  So it reaches no log, no cookie that other servers of the machine would get, and
no other page can make the browser send it.

A visible page has one WebSocket, which brings news of the array; a hidden page has none.  Browsers
allow six connections to a server for all tabs together, WebSockets not counted, so no request on
those may wait for an event.

Its modules, from the top down; each uses some of those below it:

``serving``
    Run the server: its socket, the browser, Ctrl-C.
``handlers``
    Answer requests: who gets answers, and with which headers.
``connections``
    The open connections, as many as the process has room for.
``exhibits``
    The arrays on show: one, those of a folder or of a file, or several of these.
``places``
    The arrays of ours that a page may show: alone, in a folder, or in a packed file.
``foreign``
    Files of other formats on show: opened in place, and read piece by piece.
``files``
    Files of the elements on show: npy and CSV.
``looks``
    Tell how an array is shown at first: its units, the direction of its axes, colours as axis.
``planes``
    Read planes of an array, with at most as many elements as the screen has pixels, in bounded
    time.
``packed``
    Packed numbers on show: the values that they stand for.
``growth``
    The growth map, as the page draws it: rectangles, lines, colours and texts, as numbers.
``encoding``
    Encode elements of any data type as numbers that the page can colour.

May use: the face, formats, array, and the rooms below them.
"""

from __future__ import annotations

from extarray.view.serving import serve

__all__ = ["serve"]
