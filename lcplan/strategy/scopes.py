"""Scopes: names that lcplan's own step gives to its parts with ``jax.named_scope``, so that a profile finds them again.

They are metadata of the program and change no instruction. A step of your own that uses them is read likewise.
"""

ATTENTION = "attention"
"""The exchange of keys and queries, the kernels, and the merge of their results."""
LOSS = "loss"
OPTIMIZER = "optimizer"
RECOMPUTED = "rematted_computation"
"""jax.checkpoint's own name of the work that it repeats."""
