from typing import Any

from typing_extensions import disjoint_base

# Shares of a transfer: made and run by the core, as the work of one thread.
@disjoint_base
class Share:
    def run(self) -> None: ...
    def run_and_release(self, lock: Any) -> None: ...

@disjoint_base
class BoxShare(Share): ...

@disjoint_base
class VisitShare(Share): ...
