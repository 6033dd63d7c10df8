"""Layout transformation: other chunks, permuted axes, in bounded memory.

`axis` cuts one axis into steps, `plan` finds the passes that move the least bytes, `execute`
carries out a pass, and `journal` lets interrupted work go on.
"""
