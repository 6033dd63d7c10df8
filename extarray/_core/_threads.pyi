from typing import Self

from typing_extensions import disjoint_base

# Shares of a transfer: made and run by the core, as the work of its threads.
@disjoint_base
class Work:
    def __new__(cls) -> Self: ...
    def run(self) -> None: ...

@disjoint_base
class BoxWork(Work): ...

@disjoint_base
class VisitWork(Work): ...
