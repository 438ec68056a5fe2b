"""``--from-maxtext``: what a configuration says, and what it does not."""

import pytest

from lcplan.formats.errors import BadInputError
from planner.trainers.maxtext.read import read

RUN = """
base_config: base.yml
model_name: llama3-8b
hardware: gpu
max_target_length: 262144
per_device_batch_size: 0.0625
gradient_accumulation_steps: 4
ici_fsdp_parallelism: 1
ici_context_parallelism: 16
ici_tensor_parallelism: 2
context_parallel_strategy: ring
context_parallel_load_balance: true
remat_policy: full
"""


@pytest.fixture
def says(tmp_path):
    def _says(text: str, devices: int | None = None):
        file = tmp_path / "run.yml"
        file.write_text(text)
        return read(str(file), devices)

    return _says


def test_everything_that_it_says(says):
    options = says(RUN).options
    assert options["model"].name == "llama3-8b"
    assert (options["seq"], options["devices"], options["mesh"]) == (262144, 32, "data=1,fsdp=1,context=16,tensor=2")
    # int(32 x 0.0625) = 2 sequences a microbatch, four microbatches
    assert (options["global_batch"], options["microbatches"]) == (8, (4,))
    assert (options["scheme"], options["remat"]) == (("ring-zigzag",), ("full",))
    # one vocabulary tile: the logits of all tokens of a rank, 262144 / 16
    assert options["loss_chunk_tokens"] == (16384,)
    assert says(RUN).unknown == ()


@pytest.mark.parametrize(
    ("strategy", "balance", "scheme"),
    [
        ("ring", "true", "ring-zigzag"),
        ("ring", "false", "ring"),
        ("all_gather", "true", "all-gather"),
        ("ulysses", "false", "ulysses"),
    ],
)
def test_schemes(says, strategy, balance, scheme):
    text = RUN.replace("strategy: ring", f"strategy: {strategy}").replace("load_balance: true", f"load_balance: {balance}")
    assert says(text).options["scheme"] == (scheme,)


@pytest.mark.parametrize(
    ("policy", "ours", "exact"),
    [
        ("full", "full", True),
        ("save_dot_with_context_except_mlp", "save-except-mlp", True),
        ("save_qkv_proj", "save-qkv-proj", True),
        ("save_out_proj", "save-out", True),
        ("save_dot_except_mlp", "dots-except-mlp", True),
        ("save_dot_except_mlpwi", "dots-except-mlp", True),
        ("minimal", "save-dots", True),
        ("qkv_proj_offloaded", "offload-qkv-proj", True),
        ("minimal_offloaded", "offload-dots", True),
        ("custom\ndecoder_layer_input: offload", "offload-layer-in", True),
        ("custom\ndecoder_layer_input: offload\ncontext: offload", "offload-attention", True),
        ("custom\ndecoder_layer_input: offload\ncontext: device", "save-attention", False),
        ("minimal_with_context", "save-all", True),
        ("none", "full", True),  # a scan is checkpointed all the same, with no policy
        ("none\nscan_layers: false", "save-all", True),
        ("custom\ncontext: device", "save-attention", True),
        ("custom\nquery_proj: device\nkey_proj: device\nvalue_proj: device\ncontext: device", "save-qkv", True),
        ("custom\nmlpwi_0: device", "save-dots", False),
    ],
)
def test_remat_policies_become_the_nearest_superset_and_say_so(says, policy, ours, exact):
    imported = says(RUN.replace("remat_policy: full", f"remat_policy: {policy}"))
    assert imported.options["remat"] == (ours,)
    assert bool([note for note in imported.notes if "nearest that keeps at least as much" in note]) is not exact


def test_unknown_keys_are_listed_with_the_nearest(says):
    unknown = says(RUN + "ici_contxt_parallelism: 4\nmy_own: 1\n").unknown
    assert unknown == ("ici_contxt_parallelism (did you mean 'ici_context_parallelism'?)", "my_own")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("remat_policy: full", "remat_policy: ful"), r"MaxText has no remat_policy 'ful'; did you mean 'full'\?"),
        (
            ("remat_policy: full", "attention: cudnn_flash"),
            r"MaxText has no attention 'cudnn_flash'; did you mean",
        ),
        (("remat_policy: full", "opt_type: adam"), r"MaxText has no opt_type 'adam'; did you mean 'adamw'"),
        (("remat_policy: full", "num_vocab_tiling: many"), "num_vocab_tiling: 'many' is not a whole number above zero"),
        (("strategy: ring", "strategy: rings"), r"context_parallel_strategy 'rings': unknown; did you mean 'ring'"),
        (("strategy: ring", "strategy: usp"), "lcplan has no two-dimensional scheme"),
        (
            ("ici_fsdp_parallelism: 1", "ici_fsdp_parallelism: 1\nici_pipeline_parallelism: 2"),
            "pipeline_parallelism=2: lcplan has no such",
        ),
        (("ici_fsdp_parallelism: 1", "ici_fsdp_parallelism: -1"), "an ici axis is -1.*give --devices"),
        (("ici_tensor_parallelism: 2", "ici_tensor_parallelism: two"), "ici_tensor_parallelism: 'two' is not a size"),
        (("per_device_batch_size: 0.0625", "per_device_batch_size: 0.01"), "on 32 devices is no sequence at all"),
        (("model_name: llama3-8b", "decoder_block: deepseek"), "decoder_block 'deepseek' is not one that lcplan models"),
        (("model_name: llama3-8b", "decoder_block: mixtral"), "decoder_block mixtral without num_experts; set num_experts"),
        (("compile_topology", "compile_topology"), ""),
    ],
)
def test_what_lcplan_cannot_read_is_refused(says, change, message):
    if not message:
        with pytest.raises(BadInputError, match="has 32 devices, not --devices 64"):
            says(RUN + "compile_topology: v5p-64\n", 64)
        return
    with pytest.raises(BadInputError, match=message):
        says(RUN.replace(*change))


def test_minus_one_is_filled_from_the_devices(says):
    text = RUN.replace("ici_fsdp_parallelism: 1\n", "")  # base.yml's -1
    assert says(text, 64).options["mesh"] == "data=1,fsdp=2,context=16,tensor=2"
    with pytest.raises(BadInputError, match="its ici axes multiply to 32, which does not make 48 devices a slice"):
        says(text, 48)


def test_a_mesh_that_does_not_make_the_devices_is_caught_before_the_job_starts(says):
    text = RUN + "dcn_data_parallelism: 1\n"
    with pytest.raises(
        BadInputError, match="its axes multiply to 32, not to the 64 devices; MaxText only fails when it starts"
    ):
        says(text, 64)


def test_the_topology_names_the_hardware(says):
    imported = says(RUN.replace("hardware: gpu", "hardware: tpu\ncompile_topology: v5p-64\ncompile_topology_num_slices: 1"))
    assert imported.options["hw"] == "tpu-v5p-64"


def test_slices_multiply_axes(says):
    text = RUN + "num_slices: 2\ndcn_data_parallelism: 2\n"
    assert says(text).options["mesh"] == "data=2,fsdp=1,context=16,tensor=2"


def test_slices_are_counted_as_maxtext_counts_them(tmp_path):
    """``num_slices`` is found at start: the dcn axes must multiply to it, and -1 among them is filled from it."""
    file = tmp_path / "run.yml"
    file.write_text(RUN + "dcn_data_parallelism: 2\n")
    assert read(str(file)).options["mesh"] == "data=2,fsdp=1,context=16,tensor=2"
    file.write_text(RUN.replace("ici_fsdp_parallelism: 1\n", "") + "dcn_fsdp_parallelism: 2\nnum_slices: -1\n")
    assert read(str(file), 128).options["mesh"] == "data=1,fsdp=4,context=16,tensor=2"
    file.write_text(RUN)  # base.yml's dcn_data_parallelism is -1: what is left of the slices
    assert read(str(file), 64, slices=2).options["mesh"] == "data=2,fsdp=1,context=16,tensor=2"
    file.write_text(RUN.replace("ici_fsdp_parallelism: 1\n", "") + "dcn_data_parallelism: 4\nnum_slices: 2\n")
    with pytest.raises(BadInputError, match="its dcn axes multiply to 4, which does not make 2 slices"):
        read(str(file), 64)
    file.write_text(RUN.replace("ici_fsdp_parallelism: 1\n", "") + "dcn_data_parallelism: 3\n")
    with pytest.raises(BadInputError, match="64 devices are not 3 slices of one size"):
        read(str(file), 64)


def test_a_base_beside_the_file_is_read_and_one_that_is_not_is_named(says, tmp_path):
    (tmp_path / "common.yml").write_text("remat_policy: save_qkv_proj\nmax_target_length: 8192\n")
    text = RUN.replace("base_config: base.yml", "base_config: common.yml").replace("remat_policy: full\n", "")
    assert says(text).options["remat"] == ("save-qkv-proj",)
    assert says(text).options["seq"] == 262144  # the file's own word wins
    gone = says(RUN.replace("base_config: base.yml", "base_config: elsewhere/x.yml"))
    assert any("elsewhere/x.yml is not in the folder of" in note for note in gone.notes)


def test_a_model_by_its_sizes_is_recognised(says):
    sizes = (
        "base_num_decoder_layers: 32\nbase_emb_dim: 4096\nbase_mlp_dim: 14336\nbase_num_query_heads: 32\nbase_num_kv_heads: 8\n"
        "head_dim: 128\nvocab_size: 128256\nrope_max_timescale: 500000\nnormalization_layer_epsilon: 1.0e-5\n"
    )
    text = RUN.replace("model_name: llama3-8b\n", "decoder_block: llama2\n" + sizes)
    assert says(text).options["model"].name == "llama3-8b"
    smaller = says(text.replace("base_num_decoder_layers: 32", "base_num_decoder_layers: 30"))
    assert (smaller.options["model"].name, smaller.options["model"].layers) == ("imported", 30)


def test_an_unknown_model_without_sizes_is_left_to_the_user(says):
    imported = says(RUN.replace("llama3-8b", "gemma3-4b"))
    assert "model" not in imported.options
    assert any("give --model" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("theirs", "sizes"),
    [
        ("mistral-7b", (4096, 32000, 1e6)),
        ("llama3-405b", (16384, 128256, 5e5)),
        ("qwen3-8b-base", (4096, 151936, 1e6)),
        ("qwen3-4b-thinking-2507", (2560, 151936, 5e6)),
    ],
)
def test_maxtexts_other_names_of_dense_models(says, theirs, sizes):
    """``configs/models`` of 0.2.5."""
    model = says(RUN.replace("llama3-8b", theirs)).options["model"]
    assert (model.d_model, model.vocab, model.rope.theta) == sizes
    assert (model.sliding_window, model.rope.scaling) == (None, "none")


def test_experts_with_a_capacity_have_their_own_dispatch(says):
    """AI-Hypercomputer/tpu-recipes, training/trillium/Mixtral-8x7B-MaxText: dense products, capacity 1.25."""
    text = RUN.replace("llama3-8b", "mixtral-8x7b") + "capacity_factor: 1.25\n"
    options = says(text + "sparse_matmul: false\n").options
    assert (options["moe_dispatch"], options["moe_capacity_percent"]) == (("capacity",), (125,))
    sparse = says(text)
    assert "moe_dispatch" not in sparse.options
    assert any("capacity_factor=1.25 next to sparse_matmul" in note for note in sparse.notes)


def test_what_is_priced_otherwise_is_noted(says):
    text = RUN + "quantization: fp8_full\ndtype: float32\noptimizer_memory_host_offload: true\n"
    notes = " / ".join(says(text).notes)
    for word in (
        "quantization=fp8_full: lcplan prices bf16",
        "dtype=float32: lcplan prices bf16 activations and products",
        "optimizer_memory_host_offload=True: memory is counted",
    ):
        assert word in notes


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words\n", "1: 2\n"])
def test_what_is_no_configuration_is_refused(says, text):
    with pytest.raises(BadInputError, match="not a MaxText configuration"):
        says(text)


@pytest.mark.parametrize(
    ("scale", "billions", "heads"), [(1, 1.10, 16), (16, 15.8, 64), (32, 31.7, 64), (64, 62.8, 64), (128, 125.1, 128)]
)
def test_a_scaled_model_is_as_large_as_its_name(says, scale, billions, heads):
    """configs/tpu/v5e and v5p: 16b.sh to 128b.sh are base.yml's model under ``global_parameter_scale``."""
    model = says(RUN.replace("model_name: llama3-8b", f"global_parameter_scale: {scale}")).options["model"]
    assert model.parameters / 1e9 == pytest.approx(billions, abs=0.05)
    assert model.heads == heads


def test_a_scale_that_is_no_power_of_two_is_refused(says):
    with pytest.raises(BadInputError, match="global_parameter_scale=24 is no power of two"):
        says(RUN.replace("model_name: llama3-8b", "global_parameter_scale: 24"))


def test_a_batch_that_is_not_said_is_base_ymls_on_the_devices(says):
    text = RUN.replace("per_device_batch_size: 0.0625\n", "").replace("max_target_length: 262144\n", "")
    imported = says(text)
    assert "seq" not in imported.options
    assert imported.defaults["seq"][0] == 2048
    # int(32 x 12) sequences a microbatch, four of them
    assert imported.defaults["global_batch"] == (1536, "per_device_batch_size: 12")
    assert set(says(RUN).defaults) == set()
