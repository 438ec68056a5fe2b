"""Memory of a MaxText file beyond the strategy it is priced as; with the recipes that showed what was missing."""

import json

import pytest

from lcplan import catalog
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from lcplan.strategy.remat import REMAT_POLICIES
from planner.trainers import Job
from planner.trainers.common.nearest_remat import nearest_superset
from planner.trainers.maxtext.read import read
from planner.trainers.maxtext.read_remat import Kept, own_program, priced_bytes

LLAMA = {"model_name": "llama3.1-8b", "attention": "flash", "dataset_type": "synthetic"}


@pytest.fixture
def beyond(tmp_path):
    """What a file takes beyond its strategy, by name [bytes], and the job."""

    def _beyond(hw, **keys):
        file = tmp_path / "run.yml"
        file.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in (LLAMA | keys).items()))
        hardware = catalog.hardware(hw)
        imported = read(str(file), hardware.devices)
        said = imported.options
        mesh = {axis: int(size) for axis, size in (part.split("=") for part in said["mesh"].split(","))}
        knobs = {"remat": said["remat"][0], "loss_chunk_tokens": said["loss_chunk_tokens"][0], "reduce_dtype": "bf16"}
        strategy = {"mesh": mesh, "scheme": said.get("scheme", ("ring-zigzag",))[0], "backend": "ici", **knobs}
        workload = Workload(seq_len=said["seq"], global_batch=said["global_batch"])
        job = Job(said["model"], hardware, workload, Strategy.model_validate(strategy))
        return {difference.name: difference.extra_bytes for difference in imported.more(job)}, job

    return _beyond


def test_the_files_own_set_is_priced_by_the_same_laws(make_job):
    for name, policy in REMAT_POLICIES.items():
        job = make_job(remat=name)
        tensors = Kept(policy.kept, policy.offloaded)
        assert priced_bytes(job.with_strategy(remat="full"), own_program(tensors)) == priced_bytes(job)


@pytest.fixture
def make_job():
    def _job(**fields):
        strategy = {"mesh": {"context": 8, "fsdp": 4}, "backend": "ici", "loss_chunk_tokens": 1024, **fields}
        workload = Workload(seq_len=131072, global_batch=4)
        return Job(catalog.model("llama3-8b"), catalog.hardware("tpu-v5p-64"), workload, Strategy.model_validate(strategy))

    return _job


def test_nothing_is_sent_to_the_host_that_the_file_keeps():
    """``context: offload`` alone leaves the layers' inputs on the device; it was priced with them on the host."""
    assert nearest_superset((), {"attention_output", "lse"}) == ("save-attention", False)
    assert nearest_superset((), {"layer_in", "attention_output", "lse"}) == ("offload-attention", True)
    assert nearest_superset((), {"layer_in", "query", "key", "value"}) == ("offload-qkv-proj", False)


def test_what_a_custom_policy_offloads_is_counted(beyond):
    """AI-Hypercomputer/tpu-recipes, training/v5p/Llama3.1-8B-LongContext-Maxtext: two sequences of 1M over 64 chips."""
    keys = {
        "max_target_length": 2**20,
        "per_device_batch_size": 2 / 64,
        "ici_context_parallelism": 64,
        "ici_fsdp_parallelism": 1,
    }
    found, job = beyond("tpu-v5p-128", **keys, num_vocab_tiling=32, remat_policy="custom", context="offload")
    assert job.strategy.remat == "save-attention"
    # 2 x 2^20 / 64 = 32768 tokens: 4096 features in bf16 and 32 log-sum-exps in fp32, of 32 layers, lie on the host
    assert found == {"remat": -32 * 32768 * (4096 * 2 + 32 * 4)}


@pytest.mark.parametrize(
    ("policy", "more"),
    [("full", {}), ("minimal", {}), ("custom", {"mlpwo": "device"}), ("custom", {"decoder_layer_input": "offload"})],
)
def test_exact_policies_take_nothing_more(beyond, policy, more):
    """``mlpwo`` is nowhere read again in a layer's backward pass."""
    keys = {"max_target_length": 8192, "per_device_batch_size": 1, "num_vocab_tiling": 2, "remat_policy": policy, **more}
    assert beyond("tpu-v6e-32", **keys)[0] == {}


def test_a_tile_spans_the_sequences_of_a_microbatch(beyond):
    """Trillium recipes run three to six sequences a device without vocabulary tiling: all their logits exist at once."""
    keys = {"max_target_length": 8192, "remat_policy": "full"}
    one, three = (beyond("tpu-v6e-32", **keys, per_device_batch_size=size) for size in (1, 3))
    # one sequence is what the strategy's chunk has, but for the bf16 cotangent that a loss in one piece has in lcplan's step
    assert one[0] == {"loss": -2 * 8192 * 128256}
    assert three[1].strategy.loss_chunk_tokens == 8192
    # two sequences' fp32 logits more than the strategy's chunk has, but for what its other moments already hold
    assert 0.8 * 4 * 2 * 8192 * 128256 < three[0]["loss"] <= 4 * 2 * 8192 * 128256
    tiled = beyond("tpu-v6e-32", **keys, per_device_batch_size=3, num_vocab_tiling=3)
    assert tiled[0] == {}


def test_a_tile_that_is_no_divisor_of_a_sequence_is_priced_as_the_next(beyond):
    """AI-Hypercomputer/tpu-recipes, training/ironwood/llama3.1-405b: 3 x 8192 tokens in 4 tiles of 6144."""
    keys = {"max_target_length": 8192, "per_device_batch_size": 3, "num_vocab_tiling": 4}
    found, job = beyond("tpu-v6e-32", **keys)
    assert job.strategy.loss_chunk_tokens == 8192
    assert found["loss"] <= 0


@pytest.mark.parametrize(
    ("keys", "less"),
    [
        ({}, 0),
        ({"mu_dtype": "bfloat16"}, 2),
        ({"opt_type": "sgd"}, 8),
        ({"opt_type": "muon"}, 4),
        ({"optimizer_memory_host_offload": True}, 8),
        ({"parameter_memory_host_offload": True}, 4),
        # 6 of state (2 + 2 + 2 in place of 4 + 4 + 4), 2 of gradients, and 2 of the cast copy that libtpu keeps
        ({"weight_dtype": "bfloat16"}, 10),
    ],
)
def test_state_that_is_not_twelve_bytes_a_parameter(beyond, keys, less):
    found, job = beyond("tpu-v6e-32", max_target_length=8192, per_device_batch_size=1, **keys)
    assert found.get("state", 0) == round(-less * job.state_elements)


@pytest.mark.parametrize(("more", "size"), [({}, 2), ({"float32_logits": True}, 4)])
def test_plain_attention_has_its_weights_in_memory(beyond, more, size):
    """``attention: dot_product``: what flash attention was made for; a fused kernel was priced in its place."""
    keys = {"max_target_length": 32768, "per_device_batch_size": 1, "num_vocab_tiling": 4, "attention": "dot_product"}
    found, _ = beyond("tpu-v5p-8", **keys, **more)
    # 32 heads x 32768 queries x 32768 keys, once as weights and once as their cotangent
    assert found == {"attention": 2 * size * 32 * 32768**2}
    assert beyond("tpu-v5p-8", **keys | {"attention": "flash"})[0] == {}
