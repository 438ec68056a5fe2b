"""Megatron-LM: one argument file; the same settings as overrides of a Megatron-Bridge recipe."""

from __future__ import annotations

from lcplan.evidence.plan import Plan
from lcplan.spec.model import ModelSpec
from planner.trainers import Job, Translation
from planner.trainers.common.export_files import Launch, Written, run_name, title
from planner.trainers.common.launchers import RENDEZVOUS_NOTE, torchrun
from planner.trainers.megatron import experts
from planner.trainers.megatron.facts import FILE, SCHEMES

BRIDGE_FILE = "bridge.overrides"
ORDER = "tp-cp-ep-dp-pp"
"""Megatron's default order of ranks, neighbouring devices first (``parallel_state.initialize_model_parallel``), which is also
lcplan's usual order. ``--use-tp-pp-dp-mapping`` puts pipeline stages before data-parallel ranks."""
MCORE_DTYPES = {"bf16": "bf16", "fp32": "fp32"}

Arguments = dict[str, str | None]
"""Arguments by name without dashes; None: a flag without a value."""


def export(translation: Translation, plan: Plan) -> Written:
    """The argument file, the overrides, and the launch line."""
    job = translation.job
    sections = {
        "Model": model_arguments(job.model, job.workload.seq_len),
        "Batch": _batch(job),
        f"Mesh; order of ranks {ORDER}": _mesh(job),
        **({"Experts": experts.dispatch_arguments(job)} if job.model.experts else {}),
        "Recomputation": _recompute(job),
        "Numbers and kernels": _numbers(job),
        "Yours to replace: data, optimizer schedule": {
            "mock-data": None, "tokenizer-type": "NullTokenizer", "vocab-size": str(job.model.vocab),
            "lr": "3e-4", "train-iters": "100",
        },
    }  # fmt: skip
    lines = [f"# {title(translation)}"]
    for heading, arguments in sections.items():
        lines += ["", f"# {heading}", *(_line(name, value) for name, value in arguments.items())]
    bridge = [f"# {title(translation)}", "# Overrides of a Megatron-Bridge recipe, one a line", *_bridge(job)]
    files = {FILE: "\n".join(lines) + "\n", BRIDGE_FILE: "\n".join(bridge) + "\n"}
    gpu = job.hardware.device.gpu
    check = {"compute_capability": gpu.compute_capability[0] if gpu and gpu.compute_capability else 9, "bridge": BRIDGE_FILE}
    return Written(files, _launch(translation, plan), check=check)


def _line(name: str, value: str | None) -> str:
    return f"--{name}" if value is None else f"--{name} {value}"


def _launch(translation: Translation, _: Plan) -> Launch:
    words = "$(grep -v '^#' " + FILE + ")"
    environment = {} if _sharded(translation.job) else {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    notes = [RENDEZVOUS_NOTE, "Set MEGATRON to your checkout of Megatron-LM."]
    if _sharded(translation.job):
        notes.append("CUDA_DEVICE_MAX_CONNECTIONS must not be 1: Megatron-FSDP refuses it.")
    command = (*torchrun(translation.job), '"${MEGATRON:-.}/pretrain_gpt.py"', words, "--save", run_name(translation))
    return Launch(command, environment, notes=tuple(notes))


def model_arguments(model: ModelSpec, seq_len: int) -> Arguments:
    """The model's sizes."""
    arguments: Arguments = {
        "num-layers": str(model.layers),
        "hidden-size": str(model.d_model),
        "ffn-hidden-size": str(model.d_ff),
        "num-attention-heads": str(model.heads),
        "kv-channels": str(model.head_dim),
    }
    if model.kv_heads != model.heads:
        arguments |= {"group-query-attention": None, "num-query-groups": str(model.kv_heads)}
    arguments |= {
        "seq-length": str(seq_len),
        "max-position-embeddings": str(max(seq_len, model.max_position or 0)),
        "position-embedding-type": "rope",
        "rotary-base": str(round(model.rope.theta)),
    }
    if model.rope.scaling == "llama3":
        arguments |= {"use-rope-scaling": None, "rope-scaling-factor": f"{model.rope.factor:g}"}
    if model.rope.scaling == "linear":
        arguments["rotary-seq-len-interpolation-factor"] = str(round(model.rope.factor))
    arguments |= {"swiglu": None, "normalization": "RMSNorm", "norm-epsilon": f"{model.norm_eps:g}"}
    if not model.mlp_bias:
        arguments["disable-bias-linear"] = None
        arguments |= {"add-qkv-bias": None} if model.qkv_bias else {}
    arguments |= {"qk-layernorm": None} if model.qk_norm else {}
    if not model.tied_embeddings:
        arguments["untie-embeddings-and-output-weights"] = None
    return arguments | experts.model_arguments(model) | {"attention-dropout": "0", "hidden-dropout": "0"}


def _batch(job: Job) -> Arguments:
    return {"micro-batch-size": str(job.micro_sequences), "global-batch-size": str(job.workload.global_batch)}


def _sharded(job: Job) -> bool:
    """Whether there are ranks to shard state over; else plain data parallel replicas."""
    mesh = job.strategy.mesh
    return mesh.fsdp * mesh.context * mesh.expert > 1


def _overlaps(job: Job) -> bool:
    """Whether tensor's gathers and scatters of the stream run during products, by Transformer Engine's user buffers."""
    return job.strategy.collective_matmul != "off" and job.strategy.mesh.tensor > 1


def _mesh(job: Job) -> Arguments:
    mesh = job.strategy.mesh
    arguments: Arguments = {"tensor-model-parallel-size": str(mesh.tensor)}
    arguments |= {"sequence-parallel": None} if mesh.tensor > 1 else {}
    arguments |= {"tp-comm-overlap": None} if _overlaps(job) else {}
    arguments["context-parallel-size"] = str(mesh.context)
    if mesh.context > 1:
        arguments["cp-comm-type"] = SCHEMES[job.strategy.scheme]
    arguments["pipeline-model-parallel-size"] = "1"
    if not _sharded(job):
        return arguments | {"overlap-grad-reduce": None}
    arguments |= {
        "use-megatron-fsdp": None,
        "use-distributed-optimizer": None,
        "data-parallel-sharding-strategy": "optim_grads_params",
        "no-gradient-accumulation-fusion": None,
        "ckpt-format": "fsdp_dtensor",
        "init-model-with-meta-device": None,
        "overlap-grad-reduce": None,
        "overlap-param-gather": None,
        "megatron-fsdp-main-params-dtype": "fp32",
        "megatron-fsdp-main-grads-dtype": "fp32",
        "megatron-fsdp-grad-comm-dtype": job.strategy.reduce_dtype,
    }
    if mesh.data > 1:
        arguments["num-distributed-optimizer-instances"] = str(mesh.data)
    return arguments


def _recompute(job: Job) -> Arguments:
    if job.strategy.remat == "full":
        return {"recompute-granularity": "full", "recompute-method": "uniform", "recompute-num-layers": "1"}
    if job.strategy.remat == "save-except-mlp":
        return {"recompute-granularity": "selective", "recompute-modules": " ".join(experts.recomputed_modules(job.model))}
    return {}


def _numbers(job: Job) -> Arguments:
    arguments: Arguments = {"bf16": None, "attention-backend": "fused", "transformer-impl": "transformer_engine"}
    if job.strategy.moments_dtype == "bf16":
        arguments |= {"use-precision-aware-optimizer": None, "exp-avg-dtype": "bf16", "exp-avg-sq-dtype": "bf16"}
    # Its data loader makes a mask of seq x seq bytes otherwise, 64 GiB a sequence of 256k tokens; the kernels need none.
    return arguments | {"no-create-attention-mask-in-dataloader": None, "distributed-backend": "nccl"}


def _bridge(job: Job) -> list[str]:
    """``section.field=value`` of Megatron-Bridge's ConfigContainer; fields are megatron-core's own."""
    mesh = job.strategy.mesh
    fields: dict[str, object] = {
        "model.tensor_model_parallel_size": mesh.tensor,
        "model.sequence_parallel": mesh.tensor > 1,
        "model.context_parallel_size": mesh.context,
        "model.pipeline_model_parallel_size": 1,
        "dist.use_tp_pp_dp_mapping": False,
        "model.seq_length": job.workload.seq_len,
        "dataset.seq_length": job.workload.seq_len,
        "train.micro_batch_size": job.micro_sequences,
        "train.global_batch_size": job.workload.global_batch,
    }
    fields |= experts.bridge_fields(job)
    if mesh.context > 1:
        fields["model.cp_comm_type"] = SCHEMES[job.strategy.scheme]
    fields |= {"model.tp_comm_overlap": True} if _overlaps(job) else {}
    if job.strategy.remat == "full":
        fields |= {"model.recompute_granularity": "full", "model.recompute_method": "uniform", "model.recompute_num_layers": 1}
    elif job.strategy.remat == "save-except-mlp":
        fields |= {"model.recompute_granularity": "selective"}
        fields["model.recompute_modules"] = f"[{','.join(experts.recomputed_modules(job.model))}]"
    if _sharded(job):
        fields |= {
            "dist.use_megatron_fsdp": True,
            "ddp.use_megatron_fsdp": True,
            "ddp.use_distributed_optimizer": True,
            "ddp.data_parallel_sharding_strategy": "optim_grads_params",
            "ddp.num_distributed_optimizer_instances": mesh.data,
            "model.gradient_accumulation_fusion": False,
            "checkpoint.ckpt_format": "fsdp_dtensor",
        }
    return [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in fields.items()]
