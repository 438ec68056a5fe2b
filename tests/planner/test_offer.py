import pytest

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.measure.targets.backends import backend_verdict
from planner.measure.targets.toolchain import Toolchain
from planner.run.toolchain_offer import check_at_hand, default_stage, offer


def _toolchain(jax="0.10.1", gpu=True):
    gpu_backends = {name: gpu if gpu is not True else backend_verdict(name, jax) for name in ("nccl", "nvshmem", "symmetric")}
    return Toolchain(
        python="python",
        jax=jax,
        versions={},
        targets={"gpu": gpu, "tpu": True, "cpu": True},
        backends={**gpu_backends, "ici": True, "host": True},
    )


def test_backends_that_are_real_enter_the_space(ask):
    found = offer(_toolchain(), ask())
    assert found.backends == ("nccl", "nvshmem", "symmetric")
    assert found.notes == ()


def test_a_jax_without_nvshmem_says_why(ask):
    found = offer(_toolchain("0.10.2"), ask())
    assert "nvshmem" not in found.backends
    assert "backend nvshmem is not offered: jax 0.10.2 has no real nvshmem: 0.9.2 to 0.10.1 have it" in found.notes[0]


def test_insisting_on_a_backend_that_is_not_real(ask):
    with pytest.raises(BadInputError, match=r"--backend nvshmem: jax 0.12.0.1 has no real nvshmem.*--toolchain"):
        offer(_toolchain("0.12.0.1"), ask(backend=("nvshmem",)))


def test_a_backend_of_other_hardware(ask):
    with pytest.raises(BadInputError, match=r"--backend ici: gb200-nvl72 has nccl, nvshmem, symmetric"):
        offer(_toolchain(), ask(backend=("ici",)))


def test_amd_gpus_have_rccl_alone(ask):
    found = offer(_toolchain(), ask(hw="mi300x"))
    assert found.backends == ("rccl",)
    assert "jax has no fused attention for AMD GPUs: blockwise JAX attention runs instead" in found.notes[0]
    assert found.notes[1] == (
        "mi300x cannot be compiled for here (not known to this toolchain); compiles have the evidence level compiled:host: "
        "they show that the step builds, and its memory stays modelled"
    )
    with pytest.raises(BadInputError, match=r"--backend nvshmem: mi300x has rccl"):
        offer(_toolchain(), ask(hw="mi300x", backend=("nvshmem",)))


def test_without_the_plugin_the_host_rung_is_announced(ask):
    found = offer(_toolchain(gpu='no CUDA plugin: pip install "lcplan[gpu]"'), ask())
    assert found.backends == ("nccl",)
    assert "pip install" in found.notes[0]
    assert "compiled:host" in found.notes[0]


def test_only_the_host_is_surely_at_hand(ask):
    assert default_stage(ask()) == "compiled"
    assert default_stage(ask("llama-tiny", "cpu-host", seq=1024, batch=8)) == "timed"


def test_a_head_too_wide_for_cudnn_is_announced(ask):
    request = ask()
    wide = request.model_copy(update={"model": request.model.model_copy(update={"head_dim": 256})})
    assert offer(_toolchain(), wide).notes[0].startswith("head_dim=256 is not one that cuDNN attention takes")


def test_heads_that_splash_does_not_take_are_announced(ask):
    """AI-Hypercomputer/maxtext#1047, jax-ml/jax#30861: Llama 3.2 1B and gpt-oss have heads of 64."""
    toolchain = _toolchain()
    note = offer(toolchain, ask("llama3.2-1b", "tpu-v5p-8")).notes[0]
    assert note.startswith("head_dim=64 is not one that splash attention takes (multiples of 128): blockwise JAX attention")
    assert not any("attention takes" in text for text in offer(toolchain, ask("llama3-8b", "tpu-v5p-8")).notes)
    latent = offer(toolchain, ask("deepseek-v3", "tpu-v5p-256")).notes[0]
    assert latent.startswith("keys of 192 with values of 128 are no pair that splash attention takes (one size of both)")


def test_a_clock_that_is_not_here_is_said_before_anything_is_compiled(ask, monkeypatch):
    monkeypatch.setattr("planner.measure.targets.at_hand.gpu_names", lambda: ("NVIDIA GB200",) * 4)
    with pytest.raises(
        StageFailedError, match=r"gb200-nvl72: --stages timed may take 72 devices, 4 of them are here; use --dev"
    ):
        check_at_hand(ask())
    monkeypatch.setattr("planner.measure.targets.at_hand.gpu_names", lambda: ())
    with pytest.raises(
        StageFailedError, match="0 of them are here; use --stages compiled, or an --engine whose workers have them"
    ):
        check_at_hand(ask())
    check_at_hand(ask("llama-tiny", "cpu-host", seq=1024, batch=8))
