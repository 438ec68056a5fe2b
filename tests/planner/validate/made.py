"""Tables made for tests."""

from copy import deepcopy

ROW = {
    "id": "one",
    "model": "llama3-8b",
    "hardware": "dgx-h100",
    "devices": 8,
    "workload": {"seq_len": 8192, "global_batch": 8, "precision": "bf16"},
    "strategy": {
        "mesh": {"data": 1, "fsdp": 8, "context": 1, "tensor": 1, "expert": 1, "pipe": 1},
        "remat": "full",
        "backend": "nccl",
        "microbatches": 1,
    },
    "measured": {"step_s": 1.0},
}


def row(**changes):
    """``ROW`` with top-level fields replaced, and ``strategy``, ``workload`` and ``mesh`` changed field by field."""
    made = deepcopy(ROW)
    mesh = changes.pop("mesh", None)
    for name in ("strategy", "workload"):
        made[name] |= changes.pop(name, {})
    if mesh is not None:
        made["strategy"]["mesh"] = mesh
    return made | changes


def data(*rows, **head):
    """A table's plain values."""
    start = {"schema_version": 1, "name": "made", "source": {"title": "made here", "where": "tests"}}
    return start | {"flop_convention": "model", "rows": list(rows)} | head
