"""``--from-megatron``: arguments as words, and what Megatron's validator lets through."""

import pytest

from lcplan.formats.errors import BadInputError
from planner.trainers import Job
from planner.trainers.megatron.arguments import parse
from planner.trainers.megatron.read import read

RUN = """
# a comment
--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \\
  --group-query-attention --num-query-groups 8
--seq-length 262144 --max-position-embeddings 262144 --position-embedding-type rope --rotary-base 500000
--swiglu --disable-bias-linear --normalization RMSNorm --norm-epsilon 1e-5 --untie-embeddings-and-output-weights
--vocab-size 128256
--tensor-model-parallel-size 2 --sequence-parallel --context-parallel-size 16 --cp-comm-type p2p
--use-megatron-fsdp --use-distributed-optimizer
--micro-batch-size 1 --global-batch-size 8 --bf16
--recompute-granularity full --recompute-method uniform --recompute-num-layers 1
"""

AWARE = "--use-precision-aware-optimizer"


@pytest.fixture
def says(tmp_path):
    def _says(text: str, devices: int | None = 32):
        file = tmp_path / "args.txt"
        file.write_text(text)
        return read(str(file), devices)

    return _says


def job(imported, ask):
    from lcplan.strategy import Mesh, Strategy

    request = ask()
    sizes = dict(part.split("=") for part in imported.options["mesh"].split(","))
    strategy = Strategy(mesh=Mesh(**{axis: int(size) for axis, size in sizes.items()}), loss_chunk_tokens=1024)
    return Job(request.model, request.hardware, request.workload, strategy)


def test_everything_that_they_say(says):
    imported = says(RUN)
    options = imported.options
    assert options["model"].name == "llama3-8b"
    assert (options["seq"], options["mesh"]) == (262144, "data=1,fsdp=1,context=16,tensor=2")
    assert (options["global_batch"], options["microbatches"]) == (8, (8,))
    assert (options["scheme"], options["remat"], options["reduce_dtype"]) == (("ring-zigzag",), ("full",), ("fp32",))
    assert imported.unknown == ()


def test_the_ranks_beyond_tensor_and_context_are_fsdp_or_replicas(says):
    text = RUN.replace("--context-parallel-size 16", "--context-parallel-size 2")
    assert says(text).options["mesh"] == "data=1,fsdp=8,context=2,tensor=2"
    copies = text + "--num-distributed-optimizer-instances 2"
    assert says(copies).options["mesh"] == "data=2,fsdp=4,context=2,tensor=2"
    plain = text.replace("--use-megatron-fsdp --use-distributed-optimizer", "")
    assert says(plain).options["mesh"] == "data=8,fsdp=1,context=2,tensor=2"


def test_zero_one_is_counted_as_what_it_keeps_whole(says, ask):
    imported = says(RUN.replace("--use-megatron-fsdp", ""))
    [sharding] = [d for d in imported.more(job(imported, ask)) if d.name == "sharding"]
    model = imported.options["model"]
    vectors = 32 * 2 * 4096 + 4096
    per_tensor_rank = (model.parameters - vectors) / 2
    # bf16 parameters and fp32 gradients whole, where the laws have fp32 gradients in 16 pieces
    assert sharding.extra_bytes == round(6 * per_tensor_rank - 4 * per_tensor_rank / 16)


def test_tensor_without_sequence_parallel_keeps_the_stream_whole(says, ask):
    imported = says(RUN.replace("--sequence-parallel", ""))
    [stream] = [d for d in imported.more(job(imported, ask)) if d.name == "residual-stream"]
    # 16 sequences a microbatch of the request x 16384 tokens x 4096 wide x 32 layers in bf16, half of it beyond the laws
    assert stream.extra_bytes == 16 * 16384 * 4096 * 32 * 2 // 2


@pytest.mark.parametrize(
    ("old", "new", "field", "value"),
    [
        ("--cp-comm-type p2p", "--cp-comm-type all_gather", "scheme", ("all-gather",)),
        ("--cp-comm-type p2p", "--cp-comm-type a2a", "scheme", ("ulysses",)),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
         "--recompute-granularity selective --recompute-modules mlp layernorm", "remat", ("save-except-mlp",)),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", "", "remat", ("save-all",)),
        ("--bf16", "--bf16 --megatron-fsdp-grad-comm-dtype bf16", "reduce_dtype", ("bf16",)),
        ("--bf16", f"--bf16 {AWARE} --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16", "moments_dtype", ("bf16",)),
        ("--bf16", f"--bf16 {AWARE} --exp-avg-dtype bf16", "moments_dtype", ("fp32",)),
    ],
)  # fmt: skip
def test_values(says, old, new, field, value):
    assert says(RUN.replace(old, new)).options[field] == value


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("p2p", "ptop", r"Megatron has no --cp-comm-type 'ptop', and does not notice"),
        ("p2p", "a2a+p2p", "no hierarchical one"),
        ("--bf16", "--bf16 --pipeline-model-parallel-size 4", "pipeline-model-parallel-size=4: lcplan has no such axis"),
        ("--bf16", "--bf16 --num-experts 8 --expert-model-parallel-size 3", "size=3 does not divide the 16 ranks"),
        ("--context-parallel-size 16", "--context-parallel-size 5", "tensor x context = 10 does not divide --devices 32"),
        ("--global-batch-size 8", "--global-batch-size many", "--global-batch-size many: not a whole number"),
        ("--normalization RMSNorm", "", "lcplan models RMSNorm"),
        ("--context-parallel-size 16", "--context-parallel-size $CP",
         r"--context-parallel-size \$CP: \$CP in line 8 \(not set in this file\), so it was not read; write its value"),
        ("--recompute-granularity full --recompute-method uniform", "--recompute-granularity selective --recompute-modules mpl",
         "--recompute-modules 'mpl'; did you mean 'mlp'"),
    ],
)  # fmt: skip
def test_what_lcplan_cannot_read_is_refused(says, old, new, message):
    with pytest.raises(BadInputError, match=message):
        says(RUN.replace(old, new))


def test_devices_come_from_the_command_line(says):
    with pytest.raises(BadInputError, match="takes the number of devices from its launcher; give --devices"):
        says(RUN, None)


def test_unknown_arguments_are_listed(says):
    assert says(RUN + "--context-paralel-size 2 --mine x").unknown == (
        "context-paralel-size (did you mean 'context-parallel-size'?)",
        "mine",
    )


def test_without_sizes_the_model_is_left_to_the_user(says):
    imported = says(RUN.replace("--vocab-size 128256", ""))
    assert "model" not in imported.options
    assert any("no --vocab-size" in note for note in imported.notes)


def test_the_last_of_equal_arguments_wins_as_in_argparse():
    assert parse("--a 1 --b --a 2 3 --c=4", "x") == {"a": ["2", "3"], "b": [], "c": ["4"]}


def test_names_with_underscores_and_flags_with_values_are_ms_swifts(says):
    """modelscope/ms-swift writes Megatron's arguments so: ``--sequence_parallel true``."""
    text = RUN.replace("--sequence-parallel", "--sequence_parallel true").replace(
        "--context-parallel-size", "--context_parallel_size"
    )
    assert says(text).options == says(RUN).options
    assert says(text).program == says(RUN).program
    off = says(text.replace("--sequence_parallel true", "--sequence_parallel false"))
    assert not off.program.sequence_parallel
    lengths = says(RUN.replace("--seq-length 262144", "--max_length 262144"))
    assert lengths.options["seq"] == 262144


@pytest.mark.parametrize(
    "more", ["--train_type lora", "--tuner_type lora", "--lora_rank 8", "--peft-scheme lora", "--target_modules all-linear"]
)
def test_adapters_are_out_of_scope_and_told_so(says, more):
    with pytest.raises(BadInputError, match="lcplan prices training of every parameter"):
        says(RUN + more)


def test_every_parameter_is_what_full_tuning_trains(says):
    assert says(RUN + "--tuner_type full --q-lora-rank 64").options == says(RUN).options


def test_the_vocabulary_is_padded_where_tensor_does_not_divide_it(says):
    """GPT-2's 50257 over 2 tensor ranks: the next multiple of 128 x 2 is 50432."""
    imported = says(RUN.replace("128256", "50257"))
    assert imported.options["model"].vocab == 50432
    assert any("vocabulary 50257 padded to 50432, a multiple of 256" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("old", "new", "whole", "over"),
    [
        ("", "", False, "weights"),  # Megatron-FSDP, everything split
        ("--use-megatron-fsdp ", "", True, "data"),  # the distributed optimizer
        ("--use-distributed-optimizer", "--data-parallel-sharding-strategy optim", True, "data"),
        ("--use-megatron-fsdp --use-distributed-optimizer", "", False, "weights"),  # replicas
    ],
)
def test_what_of_the_state_is_split(says, old, new, whole, over):
    imported = says(RUN.replace(old, new))
    assert (imported.whole_weights, imported.program.optimizer_over) == (whole, over)


def test_the_optimizers_share_on_the_host(says, ask):
    half = says(RUN + "--optimizer-cpu-offload --optimizer-offload-fraction 0.5")
    run = job(half, ask)
    [offload] = [one for one in half.more(run) if one.name == "offload"]
    assert offload.extra_bytes == -round(6 * run.model.parameters / run.strategy.devices)
    with pytest.raises(BadInputError, match="--optimizer-offload-fraction 'most': not a number"):
        says(RUN + "--optimizer-cpu-offload --optimizer-offload-fraction most").more(run)


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ("--fp16", "--fp16: priced as bf16"),
        ("--optimizer muon", "lcplan prices AdamW"),
        ("--cpu-offloading", "keeps activations"),
    ],
)
def test_what_is_priced_otherwise_is_told(says, more, note):
    assert any(note in text for text in says(RUN + more).notes)
    assert not any(note in text for text in says(RUN).notes)


@pytest.mark.parametrize(
    ("more", "bf16"),
    [
        ("", False),
        ("--grad-reduce-in-bf16", True),
        ("--use-precision-aware-optimizer --main-grads-dtype bf16", True),
        ("--main-grads-dtype bf16", False),
    ],
)
def test_the_buffer_of_gradients(says, ask, more, bf16):
    imported = says(RUN.replace("--use-megatron-fsdp", "") + more)
    assert imported.program.pure_bf16 == bf16
    run = job(imported, ask)
    [sharding] = [one for one in imported.more(run) if one.name == "sharding"]
    held = 16 * run.state_elements * (4 if bf16 else 6)  # 16 ranks share the optimizer
    assert sharding.extra_bytes == round(held - 4 * run.state_elements)


SCRIPT = """
#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${NNODES:-4}
CHECKPOINT=$1
SEQ=262144
DISTRIBUTED_ARGS=(--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank $NODE_RANK)
MODEL_ARGS=(
    --num-layers 32 # a comment
    --hidden-size 4096
    --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --seq-length $SEQ --max-position-embeddings $SEQ --position-embedding-type rope --rotary-base 500000
    --swiglu --disable-bias-linear --normalization RMSNorm --norm-epsilon 1e-5 --untie-embeddings-and-output-weights
)
PARALLEL="--tensor-model-parallel-size 2 --sequence-parallel \\
    --context-parallel-size $((16)) --cp-comm-type p2p"
EXTRA=()
if [[ "${FSDP:-1}" == 1 ]]; then
    EXTRA+=(--use-megatron-fsdp --use-distributed-optimizer)
fi
torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py "${MODEL_ARGS[@]}" $PARALLEL "${EXTRA[@]}" --vocab-size 128256 \\
    --micro-batch-size 1 --global-batch-size 8 --bf16 --save $CHECKPOINT --load "$CHECKPOINT" \\
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
"""


def test_a_script_with_arrays_says_what_its_arguments_say(says):
    """The form of NVIDIA/Megatron-LM, examples/llama."""
    imported, plain = says(SCRIPT, None), says(RUN, 32)
    assert imported.options == plain.options
    assert imported.program == plain.program
    assert "--save $1: $1 in line 6 (the caller gives it), so it was not read; checkpoints and restarts" in imported.notes


def test_devices_that_are_asked_for_win_over_the_scripts(says):
    imported = says(SCRIPT, 64)
    assert imported.options["devices"] == 64
    note = "the script starts 32 processes (--nnodes 4, --nproc_per_node 8), and 64 devices are priced"
    assert note in imported.notes


def test_a_length_that_only_the_shell_knows_is_asked_for(says):
    imported = says(SCRIPT.replace("SEQ=262144", ""), 32)
    assert "seq" not in imported.options
    assert "--seq-length $SEQ: $SEQ in line 13 (not set in this file)" in imported.unresolved["seq"]


def test_variables_alone_are_read(says):
    """The form of NVIDIA/Megatron-LM, examples/post_training/modelopt/conf, which other scripts source."""
    found = says(f'MODEL_ARGS=" \\\n{RUN.partition("comment")[2]} "', 32)
    assert found.options == says(RUN).options


@pytest.mark.parametrize(
    ("more", "knob", "stream"),
    [
        ("--tp-comm-overlap", ("one-way",), "exposed"),
        ("", None, "exposed"),
        ("--tp-comm-overlap --disable-tp-comm-overlap-ag --disable-tp-comm-overlap-rs", None, "backward-beside-products"),
        ("--tp-comm-overlap --disable-tp-comm-split-ag --no-tp-comm-overlap-rs", None, "backward-beside-products"),
    ],
)
def test_the_overlap_of_tensors_communication_is_a_knob(says, more, knob, stream):
    imported = says(RUN + more)
    assert (imported.options.get("collective_matmul"), imported.program.stream) == (knob, stream)


def test_half_an_overlap_is_named(says):
    imported = says(RUN + "--tp-comm-overlap --disable-tp-comm-overlap-ag")
    assert "collective_matmul" not in imported.options
    assert any("only rs, dgrad, wgrad left is priced without overlap" in note for note in imported.notes)
    whole = says(RUN + "--tp-comm-overlap --disable-tp-comm-bulk-dgrad")
    assert any("priced with its bulk overlap of dgrad" in note for note in whole.notes)


def test_dropout_graphs_and_determinism_are_priced(says):
    """Megatron drops out a tenth unless the arguments say otherwise."""
    silent, none = says(RUN), says(RUN + "--hidden-dropout 0")
    assert (silent.program.dropout, none.program.dropout) == (True, False)
    assert any("Megatron's default, 0.1" in note for note in silent.notes)
    assert not any("hidden-dropout" in note for note in none.notes)
    assert says(RUN + "--deterministic-mode").program.deterministic
    graphs = [says(RUN + more).program.dispatch for more in ("", "--cuda-graph-impl local", "--enable-cuda-graph")]
    assert graphs == ["eager", "graphs", "graphs"]
    partly = says(RUN + "--cuda-graph-impl transformer_engine --cuda-graph-modules attn")
    assert partly.program.dispatch == "eager"
    assert any("CUDA graphs of attn only" in note for note in partly.notes)
