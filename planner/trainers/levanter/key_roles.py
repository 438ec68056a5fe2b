"""The role of each of Levanter's keys."""

from __future__ import annotations

from planner.trainers.common.known_keys import Noted, Roles, words

OFF = ("False", "None", "", "{}")

ROLES = Roles(
    read=words(
        """
        adapter data initialize_from_hf model model.activation_function model.gradient_checkpointing model.head_dim
        model.hidden_dim model.hybrid_norm model.input_embedding_norm model.intermediate_dim model.layer_norm_epsilon
        model.max_seq_len model.num_heads model.num_kv_heads model.num_layers model.reference_checkpoint model.rope
        model.tie_word_embeddings model.type model.use_bias model.use_qk_norm optimizer train_seq_len trainer trainer.mesh
        trainer.mesh.axes trainer.mesh.compute_mapping trainer.mesh.dcn_axes trainer.mesh.param_mapping
        trainer.mesh.shared_mapping trainer.mp trainer.per_device_parallelism trainer.train_batch_size use_hf_model_config
        """
    ),
    harmless={
        "logging, profiling and checks": (
            "log_entropy trainer.crash_on_* trainer.id trainer.log_* trainer.profiler trainer.progress_watchdog "
            "trainer.tracker trainer.wandb trainer.watch trainer.xla_dump_upload"
        ),
        "checkpoints and files": (
            "hf_* initialize_from_checkpoint_path initialize_model_from_checkpoint_path merged_hf_* peft_* "
            "trainer.allow_partial_checkpoint trainer.checkpointer trainer.initialize_from trainer.load_checkpoint*"
        ),
        "evaluation": (
            "eval_harness eval_harness_steps labeled_eval trainer.max_eval_batches trainer.per_device_eval_parallelism "
            "trainer.steps_per_eval"
        ),
        "data and the length of the run": "data_seed trainer.num_train_steps trainer.seed model.tokenizer",
        "initial values and weights of norms": "model.initializer_range model.use_layer_norm_weight",
        "how processes start": (
            "trainer.distributed trainer.jax_compilation_cache_dir trainer.require_accelerator trainer.shutdown_at_exit"
        ),
        "the same placement by another way of jax": "trainer.use_explicit_mesh_axes",
        "the name of an axis": "trainer.mesh.batch_axis_name",
        "a few rows of the vocabulary": "pad_tokenizer_to_match_model",
        "a term of the loss on the same logits": "z_loss_weight",
        "tiles of attention, which have no part in its memory": "model.flash_attention_block_size",
    },
    noted={
        "model.attn_backend": Noted(
            "attention is priced as fused",
            unless=("None", "", "splash", "nvte", "default", "jax_flash"),
        ),
        "model.use_flash_attention": Noted("attention is priced as fused", unless=("True", "None", "")),
        "model.scan_layers": Noted("lcplan prices scanned layers; XLA may keep more of unrolled ones", unless=("True",)),
        "model.sliding_window": Noted("attention is priced over whole sequences", unless=OFF),
        "model.use_sliding_window": Noted("attention is priced over whole sequences", unless=OFF),
        "model.max_window_layers": Noted("attention is priced over whole sequences", unless=("0", "None")),
        "model.upcast_attn": Noted("attention is priced in bf16", unless=OFF),
        "trainer.allow_nondivisible_batch_size": Noted("ranks are priced with as many sequences each", unless=OFF),
        "trainer.jax_config": Noted("settings of jax are not priced", unless=OFF),
        "trainer.model_averaging": Noted("a copy of the weights for averages is not priced", unless=OFF),
        "trainer.quantization": Noted("lcplan prices bf16", unless=OFF),
    },
)
"""Levanter's keys by their role."""
