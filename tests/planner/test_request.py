import pytest

from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.spec.rollout_workloads import SampleWorkload
from lcplan.spec.workload import Workload
from planner.request.request import SearchRequest, default_global_batch, make_request


def test_too_many_devices(ask):
    with pytest.raises(
        BadInputError, match=r"devices=73 is more than the 72 of gb200-nvl72; ask for at most 72, or for more domains"
    ):
        ask(devices=73)


def test_a_rollout_may_be_longer_than_the_sliding_window(ask):
    rollout = SampleWorkload(prompt=8192, generate=1024, batch=8)
    assert ask("mistral-7b-v0.1", workload=rollout).workload.seq_len == 9216


@pytest.mark.parametrize(
    ("seq", "hw", "devices", "batch"),
    [
        (262144, "gb200-nvl72", None, 16),  # 4 Mi / 256 Ki
        (3 * 2**19, "gb200-nvl72", None, 2),  # 4 Mi / 1.5 Mi, rounded down
        (2**23, "gb200-nvl72", None, 1),  # at least one sequence
        (1024, "cpu-host", 8, 8),  # one sequence a host device
        (131072, "gb200-nvl72x142", None, 1278),  # 10,224 x 16 Ki / 128 Ki
        (131072, "gb200-nvl72x16", 1024, 128),  # the devices that are asked for
        (131072, "gb200-nvl72x16", 256, 32),  # 4 Mi / 128 Ki, which 16 Ki on each of 256 are too
    ],
)
def test_default_global_batch(seq, hw, devices, batch):
    assert default_global_batch(seq, catalog.hardware(hw), devices) == batch


def test_warnings_of_a_request(ask):
    told = "\n".join(ask().warnings)
    assert "llama3-8b was trained on positions up to 8k; at 256k its RoPE must be extended" in told
    assert ask("llama3.1-8b", seq=131072).warnings == ()
    large = ask("llama3.1-8b", seq=131072, budget_bytes=2**40)
    assert "the budget of 1.0 TiB is above the" in large.warnings[0]


def test_a_value_that_no_request_has_is_named():
    machine = catalog.hardware("dgx-h100")
    workload = Workload(seq_len=8192, global_batch=8)
    asked = {"model": catalog.model("llama3-8b"), "hardware": machine, "workload": workload}
    with pytest.raises(BadInputError, match=r"^budget_bytes: Input should be greater than 0 \(got 0\)$"):
        make_request({**asked, "budget_bytes": 0})
    with pytest.raises(BadInputError, match=r"^devices=9 is more than the 8 of dgx-h100"):
        make_request({**asked, "budget_bytes": 1, "devices": 9})


def test_one_folder_a_request(ask):
    assert ask().slug == ask().slug
    assert ask().slug != ask(batch=8).slug
    assert ask().slug.startswith("llama3-8b-256k-gb200-nvl72-")


def test_the_jax_of_a_trainer_is_part_of_the_question_only_where_it_is_stated(ask):
    plain, stated = ask(), ask().model_copy(update={"trainer": "maxtext", "trainer_jax": "0.10.1"})
    assert "trainer_jax" not in plain.identity
    assert stated.identity["trainer_jax"] == "0.10.1"
    assert SearchRequest.model_validate(stated.identity) == stated
