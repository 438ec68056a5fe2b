"""DeepSpeed: its JSON, and a short module for settings that need Python (sequence length, attention, checkpointing)."""

from __future__ import annotations

import json
from typing import Any

from lcplan.evidence.plan import Plan
from lcplan.formats.text import docstring_text
from planner.trainers import Job, Translation
from planner.trainers.common.export_files import Launch, Written, title
from planner.trainers.common.launchers import RENDEZVOUS_NOTE, torchrun
from planner.trainers.deepspeed.facts import FILE

MODULE = "lcplan_deepspeed.py"

_MODULE = '''"""{title}.

Call ``prepare(model)`` before ``deepspeed.initialize(model=model, mpu=.., config="{config}")`` and hand it the mpu.
"""

SEQ_LEN = {seq_len}
SEQUENCE_PARALLEL_SIZE = {context}
MICRO_BATCH_SIZE = {micro}
GRADIENT_CHECKPOINTING = {checkpointing}


def prepare(model):
    """Switch gradient checkpointing and Ulysses attention on; the mpu for deepspeed.initialize, None without Ulysses."""
    if GRADIENT_CHECKPOINTING:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={{"use_reentrant": False}})
    if SEQUENCE_PARALLEL_SIZE == 1:
        return None
    from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF

    return UlyssesSPAttentionHF.register_with_transformers(
        model_name_or_path=model,
        core_attn_implementation="flash_attention_2",
        sequence_parallel_size=SEQUENCE_PARALLEL_SIZE,
        micro_batch_size=MICRO_BATCH_SIZE,
        seq_length=SEQ_LEN,
        seq_length_is_variable=False,
    )
'''


def export(translation: Translation, _: Plan) -> Written:
    """The JSON, the module and the launch line."""
    job = translation.job
    module = _MODULE.format(
        title=docstring_text(title(translation)), config=FILE, seq_len=job.workload.seq_len, context=job.strategy.mesh.context,
        micro=job.micro_sequences, checkpointing=job.strategy.remat == "full",
    )  # fmt: skip
    command = (*torchrun(job), '"${SCRIPT:-train.py}"', "--deepspeed_config", FILE)
    launch = Launch(command, notes=(RENDEZVOUS_NOTE, f"Set SCRIPT to your training script; it calls prepare() of {MODULE}."))
    check = {"heads": job.model.heads, "kv_heads": job.model.kv_heads}
    return Written({FILE: json.dumps(_settings(job), indent=2) + "\n", MODULE: module}, launch, check=check)


def _settings(job: Job) -> dict[str, Any]:
    mesh = job.strategy.mesh
    settings: dict[str, Any] = {
        "train_batch_size": job.workload.global_batch,
        "train_micro_batch_size_per_gpu": job.micro_sequences,
        "gradient_accumulation_steps": job.strategy.microbatches,
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": 3 if mesh.tensor == 1 else 1,  # beside AutoTP nothing of ZeRO-3, and here there is one rank to split over
            "overlap_comm": True,
            "contiguous_gradients": True,
            "offload_optimizer": {"device": "none"},
            "offload_param": {"device": "none"},
        },
        "communication_data_type": job.strategy.reduce_dtype,
        "gradient_clipping": 1.0,
    }
    if mesh.context > 1:
        settings["sequence_parallel_size"] = mesh.context
        settings["data_parallel_size"] = mesh.fsdp
        settings["seq_parallel_communication_data_type"] = "bf16"
    if mesh.tensor > 1:
        settings["tensor_parallel"] = {"autotp_size": mesh.tensor}
    return settings
