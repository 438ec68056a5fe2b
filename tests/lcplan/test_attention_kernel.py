"""The attention kernel by heads, chunks, precision and device."""

import pytest

from lcplan.catalog import model
from lcplan.strategy.attention_kernel import attention_kernel, shortest_chunk


def chosen(kind, *, head_dim=128, chunk=4096, precision="bf16"):
    spec = model("llama3-8b").model_copy(update={"head_dim": head_dim})
    return attention_kernel(spec, kind=kind, precision=precision, shortest_chunk=chunk, capability=(9, 0))


@pytest.mark.parametrize(
    ("head_dim", "gpu", "tpu"),
    [
        (64, "cudnn", "blockwise"),
        (100, "blockwise", "blockwise"),  # no multiple of 8
        (128, "cudnn", "splash"),
        (136, "cudnn", "blockwise"),
        (256, "cudnn", "splash"),
        (264, "blockwise", "blockwise"),  # above cuDNN's largest
    ],
)
def test_head_dims(head_dim, gpu, tpu):
    assert (chosen("gpu", head_dim=head_dim), chosen("tpu", head_dim=head_dim)) == (gpu, tpu)


def test_splash_takes_whole_lanes_of_a_chunk_and_cudnn_any():
    assert [chosen("tpu", chunk=chunk) for chunk in (64, 128, 192, 256)] == ["blockwise", "splash", "blockwise", "splash"]
    assert chosen("gpu", chunk=64) == "cudnn"


def test_single_precision_and_hosts_run_blockwise():
    assert {chosen(kind, precision="fp32") for kind in ("gpu", "tpu", "cpu")} == {chosen("cpu")} == {"blockwise"}


def test_heads_of_256_take_a_hopper():
    """On Blackwell cuDNN's backward pass ends at 128 (cuDNN frontend, support matrix)."""
    wide = model("llama3-8b").model_copy(update={"head_dim": 256})
    versions = ((8, 0), (8, 9), (9, 0), (10, 0), (12, 0), None)
    found = [attention_kernel(wide, kind="gpu", precision="bf16", shortest_chunk=4096, capability=one) for one in versions]
    assert found == ["blockwise", "blockwise", "cudnn", "blockwise", "blockwise", "blockwise"]


def test_unlike_heads_take_a_hopper():
    latent = model("deepseek-v3")
    dims = {"kind": "gpu", "precision": "bf16", "shortest_chunk": 4096}
    found = [attention_kernel(latent, **dims, capability=version) for version in ((8, 0), (9, 0), (10, 0), None)]
    assert found == ["blockwise", "cudnn", "cudnn", "blockwise"]


def test_the_shortest_chunk_is_half_of_a_ranks():
    assert [shortest_chunk(8192, context) for context in (1, 4)] == [4096, 1024]
