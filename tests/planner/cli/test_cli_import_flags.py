"""Flags of XLA and libtpu in MaxText's files and scripts, as ``lcplan estimate --from-maxtext`` reads them."""

from pathlib import Path

import pytest

RUN = "python3 -m maxtext.trainers.pre_train.train base.yml model_name=llama3-8b packing=false "
GPU = RUN + (
    "max_target_length=131072 per_device_batch_size=0.0625 ici_fsdp_parallelism=1 ici_context_parallelism=16 hardware=gpu "
    "context_parallel_strategy=ring context_parallel_load_balance=false"
)
COMBINED = ("all_gather", "reduce_scatter", "all_reduce")
TPU = RUN + "max_target_length=8192 per_device_batch_size=1 ici_fsdp_parallelism=-1 hardware=tpu"


@pytest.fixture
def read(lcplan):
    """The strategy and the notes of a script's text, or of a YAML file's."""

    def _read(text, *options, name="job.sh"):
        Path(name).write_text(text)
        answer = lcplan("estimate", "--from-maxtext", name, *options, "--format", "json")
        assert answer.code == 0, answer.err
        return answer.json["candidate"]["strategy"], answer.json["imported"]["notes"]

    return _read


@pytest.mark.parametrize(
    ("flags", "backend", "scheduler"),
    [
        ("", "nccl", "default"),
        ("--xla_gpu_experimental_enable_nvshmem=true", "nvshmem", "default"),
        ("--xla_gpu_experimental_enable_nvshmem=1", "nvshmem", "default"),
        ("--xla_gpu_experimental_enable_nvshmem=true --xla_gpu_experimental_enable_nvshmem=false", "nccl", "default"),
        ("--xla_gpu_collective_permute_mode=symmetric", "symmetric", "default"),
        ("--xla_gpu_enable_latency_hiding_scheduler=true", "nccl", "latency-hiding"),
        (
            " ".join(f"--xla_gpu_{op}_combine_threshold_bytes=268435456" for op in COMBINED),
            "nccl",
            "combined",
        ),
    ],
)
@pytest.mark.parametrize("export", ['export XLA_FLAGS="{}"\n', 'XLA_FLAGS="$XLA_FLAGS {}" '])
def test_flags_of_a_script_are_its_backend_and_preset(read, flags, backend, scheduler, export):
    strategy, _ = read(export.format(flags) + GPU, "--devices", "16", "--hw", "gb200-nvl72")
    assert (strategy["backend"], strategy["scheduler"]) == (backend, scheduler)


def test_libtpu_flags_are_read(read):
    text = 'LIBTPU_INIT_ARGS="--xla_tpu_enable_latency_hiding_scheduler=false" ' + TPU
    assert read(text, "--hw", "tpu-v5p-64")[0]["scheduler"] == "no-latency-hiding"


def test_flags_of_the_key_for_compiles_are_read(read):
    flags = "compile_xla_flags: --xla_gpu_experimental_enable_nvshmem=true\nhardware: gpu\nmodel_name: llama3-8b\n"
    keys = "max_target_length: 131072\nper_device_batch_size: 0.0625\nici_fsdp_parallelism: 1\nici_context_parallelism: 16\n"
    ring = "context_parallel_strategy: ring\ncontext_parallel_load_balance: false\npacking: false\n"
    assert read(flags + keys + ring, "--devices", "16", "--hw", "gb200-nvl72", name="job.yml")[0]["backend"] == "nvshmem"


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--xla_gpu_threshold_for_windowed_einsum_mib=0", "XLA's collective matmul is not priced"),
        ("--xla_gpu_all_gather_combine_threshold_bytes=8589934592", "no preset of --scheduler sets it so"),
        ("--xla_gpu_enable_pipelined_p2p=true", "no preset of --scheduler sets it so"),
    ],
)
def test_a_flag_that_is_not_priced_is_noted(read, flag, words):
    _, notes = read(f'export XLA_FLAGS="{flag}"\n{GPU}', "--devices", "16", "--hw", "gb200-nvl72")
    assert any(note.startswith(f"{flag}: ") and words in note for note in notes)


def test_a_flag_of_no_account_is_not_noted(read):
    _, notes = read(f'export XLA_FLAGS="--xla_dump_to=dump"\n{GPU}', "--devices", "16", "--hw", "gb200-nvl72")
    assert not any("xla_dump_to" in note for note in notes)
