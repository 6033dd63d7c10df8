from typing_extensions import disjoint_base

from extarray._core._axial import Axial

@disjoint_base
class QueryTables:
    def __init__(self, axial: Axial) -> None: ...
