from typing import Self

from typing_extensions import disjoint_base

# Shares of a transfer: made and run by the core, as the work of one thread.
@disjoint_base
class Share:
    def __new__(cls) -> Self: ...
    def run(self) -> None: ...

@disjoint_base
class BoxShare(Share): ...

@disjoint_base
class VisitShare(Share): ...
