"""Order of meshes: pairs of layouts whose measured times differ by more than noise."""

from planner.validate.scoring.meshes import mesh_orders
from planner.validate.scoring.row_result import RowResult
from planner.validate.sources.table import Row
from tests.planner.validate.made import row


def one(name, *, measured, predicted, fsdp=8, tensor=1):
    mesh = {"data": 1, "fsdp": fsdp, "context": 1, "tensor": tensor, "expert": 1, "pipe": 1}
    made = Row.model_validate(row(id=name, mesh=mesh, measured={"step_s": measured}))
    ratio = {"step_s": predicted / measured - 1}
    return made, RowResult(name, {"step_s": measured}, predicted={"step_s": predicted}, error_ratio=ratio)


def test_pairs_count_in_order_and_within_5_percent():
    slow = one("slow", measured=2.0, predicted=1.0, fsdp=2, tensor=4)
    for predicted, ordered, right in ((0.9, 1, 1), (1.04, 0, 1), (1.06, 0, 0)):
        (found,) = mesh_orders([one("fast", measured=1.0, predicted=predicted), slow])
        assert (found.pairs, found.pairs_in_order, found.pairs_right) == (1, ordered, right)
        assert (found.best, found.right) == ("fsdp=8", bool(right))
        assert found.measured == {"fsdp=8": 1.0, "fsdp=2,tensor=4": 2.0}
        assert found.to_json()["over"] == "mesh"


def test_times_within_noise_have_no_order():
    near = [one("a", measured=1.0, predicted=1.0), one("b", measured=1.03, predicted=0.5, fsdp=4, tensor=2)]
    assert mesh_orders(near) == ()
    assert mesh_orders(near, noise_ratio=0.01)[0].pairs == 1


def test_one_layout_is_no_comparison():
    assert mesh_orders([one("a", measured=1.0, predicted=1.0), one("b", measured=2.0, predicted=1.0)]) == ()
