"""The role of each of Megatron's arguments."""

from __future__ import annotations

from planner.trainers.common.known_keys import Noted, Roles, words

OFF = ("0", "none", "None")

READ = words(
    """
    add-qkv-bias attention-backend bf16 context-parallel-size cp-comm-type cpu-offloading-num-layers cuda-graph-impl
    cuda-graph-modules cuda-graph-scope deterministic-mode enable-cuda-graph external-cuda-graph hidden-dropout
    data-parallel-sharding-strategy decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers disable-bias-linear
    disable-tp-comm-bulk-dgrad disable-tp-comm-bulk-wgrad disable-tp-comm-overlap-ag disable-tp-comm-overlap-rs
    disable-tp-comm-split-ag disable-tp-comm-split-rs no-tp-comm-bulk-dgrad no-tp-comm-bulk-wgrad no-tp-comm-overlap-ag
    no-tp-comm-overlap-rs no-tp-comm-split-ag no-tp-comm-split-rs
    distribute-saved-activations exp-avg-dtype exp-avg-sq-dtype expert-model-parallel-size expert-tensor-parallel-size
    ffn-hidden-size fine-grained-activation-offloading fp16 fp8-format fp8-recipe global-batch-size grad-reduce-in-bf16
    group-query-attention hidden-size kv-channels main-grads-dtype make-vocab-size-divisible-by
    megatron-fsdp-grad-comm-dtype micro-batch-size moe-expert-capacity-factor moe-expert-rank-capacity-factor
    moe-ffn-hidden-size moe-layer-freq moe-pad-expert-input-to-capacity moe-router-group-topk moe-router-num-groups
    moe-router-pre-softmax moe-router-score-function moe-router-topk moe-router-topk-scaling-factor moe-shared-expert-gate
    moe-shared-expert-intermediate-size moe-token-dispatcher-type mtp-num-layers multi-latent-attention
    no-create-attention-mask-in-dataloader norm-epsilon normalization num-attention-heads
    num-distributed-optimizer-instances num-experts num-layers num-query-groups optimizer optimizer-cpu-offload
    optimizer-offload-fraction overlap-param-gather pipeline-model-parallel-layout pipeline-model-parallel-size
    position-embedding-type qk-layernorm recompute-activations recompute-granularity recompute-method recompute-modules
    recompute-num-layers rope-scaling-factor rotary-base rotary-seq-len-interpolation-factor seq-length sequence-parallel
    softmax-type swiglu tensor-model-parallel-size torch-fsdp2-no-reshard-after-forward tp-comm-overlap transformer-impl
    untie-embeddings-and-output-weights use-distributed-optimizer use-megatron-fsdp use-precision-aware-optimizer
    use-rope-scaling use-torch-fsdp2 vocab-size window-size
    """
)

HARMLESS = {
    "learning rate, weight decay and the length of the run": (
        "adam-* clip-grad *decoupled-lr decoupled-min-lr end-weight-decay start-weight-decay head-lr-mult lion-* lr "
        "lr-* min-lr "
        "weight-decay weight-decay-* train-iters train-samples skip-train sgd-momentum seed iterations-to-skip "
        "apply-wd-to-qk-layernorm no-weight-decay-cond-type override-opt* use-checkpoint-opt* exit-* eval-* start-eval-at-iter "
        "full-validation multiple-validation-sets phase-transition-iterations finetune mup-* use-mup "
        "hysteresis initial-loss-scale loss-scale* min-loss-scale qk-clip*"
    ),
    "of optimizers other than Adam, which a note on --optimizer names": "muon-*",
    "initial values": (
        "init-method-* embedding-init-method-std no-initialization use-cpu-initialization init-model-with-meta-device "
        "lazy-mpu-init data-parallel-random-init glu-linear-offset"
    ),
    "data and tokenizers": (
        "*data-path *data-args-path* data-cache-path *block-data-path chat-template dataloader-* eod-mask-loss fim-* "
        "merge-file mid-level-dataset-surplus mock-data no-data-sharding no-mmap-bin-files null-tokenizer-* "
        "num-dataset-builder-threads num-workers object-storage-cache-path per-dataset-* per-split-* "
        "sft-tokenizer-prompt-format split *tiktoken-* *tokenizer-* trust-remote-code vocab-extra-ids vocab-file "
        "validation-set-names mask-* short-seq-prob reset-position-ids tokenizer-* sample-rate use-one-sent-docs "
        "allow-ambiguous-pad-tokens data-per-class-fraction classes-fraction"
    ),
    "checkpoints and restarts": (
        "adlr-* async-* auto-detect-ckpt-format ckpt-* dist-ckpt-* distrib-optim-* disable-ckpt-* disable-stream-ckpt-dequant "
        "disable-strict-fsdp-dtensor-load no-ckpt-* no-load-* no-save-* no-stream-ckpt-dequant no-strict-* load load-* "
        "local-rank "
        "non-persistent-* override-ckpt-iteration persistent-save-interval pretrained-checkpoint replication* save save-* "
        "use-checkpoint-args use-dist-ckpt use-mp-args-from-checkpoint-args use-persistent-ckpt-worker verify-integrity "
        "exit-on-missing-checkpoint enable-ft-package ft-* calc-ft-timeouts inprocess-* rerun-mode error-injection-* "
        "fault-injector-* result-rejected-tracker-filename enable-msc disable-msc refit-method yaml-cfg use-legacy-* "
        "dump-param-to-param-group-map config-logger-dir"
    ),
    "logging, profiling and checks": (
        "app-tag-* check-* disable-flight-* no-flight-* flight-recorder-* disable-log-* no-log-* disable-straggler-* "
        "gpu-sniff-* "
        "log-* logging-level memory-snapshot-path no-barrier-* no-check-* no-one-logger nvtx-ranges one-logger-* "
        "profile profile-* "
        "pytorch-profiler-* use-pytorch-profiler record-* run-workload-inspector-server straggler-* tensorboard-* timing-* "
        "wandb-* logits-save-* logits-load-* moe-per-layer-logging moe-routing-trace-* indexer-log-interval help test-mode "
        "no-log-* train-sync-interval max-tokens-to-oom empty-unused-memory-level"
    ),
    "generation of text and reinforcement learning, which is not this program": (
        "*inference* rl-* no-rl-* grpo-* langrl-* perform-rl-step decode-only-cuda-graphs enable-chunked-prefill flash-decode "
        "mlp-chunks-for-prefill nccl-all-reduce-for-prefill num-speculative-tokens cache-mla-latents symmetric-ar-type "
        "use-legacy-static-engine use-same-sampling-seed-* batch-invariant-mode"
    ),
    "BERT, retrieval and vision models": (
        "bert-* biencoder-* dino-* ict-* img-* retriever-* swin-* vision-* evidence-data-path indexer-batch-size "
        "iter-per-epoch num-channels num-classes output-bert-embeddings patch-dim query-in-block-prob titles-data-path "
        "encoder-* decoder-seq-length decoder-num-layers embedding-path max-seqlen-* relative-attention-*"
    ),
    "old names and names of the same thing": (
        "batch-size checkpoint-activations model-parallel-size use-mcore-models use-flash-attn warmup rotary-percent "
        "openai-gelu quick-geglu onnx-safe padded-vocab-size enable-experimental use-rotary-position-embeddings"
    ),
    "process groups and start": (
        "distributed-backend distributed-timeout-* disable-gloo-* nccl-communicator-config-path high-priority-* "
        "create-all-gather-group use-sharp sharp-enabled-group use-ring-exchange-p2p use-tp-pp-dp-mapping fake-process-group "
        "disable-symmetric-registration suggested-communication-unit-size torch-* local-rank"
    ),
    "of a pipeline, which is refused": (
        "account-for-* *-per-virtual-pipeline-stage num-virtual-stages-* microbatch-group-size-* no-overlap-p2p-* "
        "overlap-p2p-* pipeline-model-parallel-comm-backend delta-offload-bytes-across-pp-ranks defer-embedding-wgrad-compute "
        "wgrad-deferral-limit num-layers-per-*"
    ),
    "the same bytes in other calls": (
        "overlap-grad-reduce ddp-average-in-collective ddp-num-buckets ddp-pad-* no-align-* disable-align-* "
        "overlap-param-gather-with-optimizer-step no-gradient-reduce-div-fusion delay-wgrad-compute "
        "accumulate-allreduce-grads-in-fp32 no-gradient-accumulation-fusion megatron-fsdp-enable-fine-grained-* "
        "ddp-param-name-* no-use-layer-wise-param-layout calculate-per-token-loss fsdp-manual-registration "
        "ddp-reduce-scatter-with-fp32-accumulation megatron-fsdp-main-grads-dtype megatron-fsdp-main-params-dtype "
        "use-cpu-initialization suggested-* reuse-grad-buf-for-mxfp8-param-ag"
    ),
    "fusion and launch of the same kernels": (
        "apply-query-key-layer-scaling attention-softmax-in-fp32 cuda-graph-warmup-steps "
        "optimizer-cuda-graph disable-jit-fuser no-bias-* no-masked-softmax-fusion no-persist-layer-norm no-rope-fusion "
        "fused-residual-rmsnorm use-te-activation-func use-transformer-engine-op-fuser flash-attention-version "
        "kitchen-* use-kitchen-attention mla-down-proj-fusion te-rng-tracker te-precision-* manual-gc* no-manual-gc-eval "
        "disable-manual-gc-eval disable-bf16-* cross-entropy-fusion-impl moe-permute-fusion "
        "moe-router-fusion moe-single-grouped-* moe-mlp-glu-* moe-shared-expert-glu-* use-grouped-gemm-* "
        "moe-grouped-gemm disable-clone-* no-clone-* use-fused-weighted-squared-relu dsa-kernel-backend "
        "disable-mamba-mem-eff-path delay-offload-until-cuda-graph min-offloaded-tensor-size"
    ),
    "the positions of tokens": (
        "max-position-embeddings rotary-interleaved rotary-scaling-factor rope-type mscale mscale-all-dim mrope-section yarn-* "
        "no-yarn-* no-rope-freq no-position-embedding"
    ),
    "where a norm or a scale is applied": (
        "apply-layernorm-1p apply-residual-connection-post-layernorm activation-func-clamp-value qk-l2-norm"
    ),
    "the choice of experts, not how many": (
        "moe-aux-loss-coeff moe-z-loss-coeff moe-input-jitter-eps moe-router-load-balancing-type moe-router-bias-update-rate "
        "moe-router-enable-expert-bias moe-router-quantile-* moe-router-force-* moe-router-dtype moe-token-drop-policy "
        "moe-enable-routing-replay moe-pad-experts-for-cuda-graph-inference"
    ),
    "of a key that is noted": (
        "moe-deepep-* moe-hybridep-* moe-ncclep-* moe-flex-dispatcher-* moe-enable-deepep moe-upcycling-granularity "
        "mtp-* fp8-* fp4-* keep-fp8-transpose-cache no-fp8-wgrad disable-fp8-wgrad first-last-layers-bf16 "
        "num-layers-at-*-in-bf16 linear-* mamba-* dsa-* disable-dsa-* no-dsa-* kv-lora-rank q-lora-rank qk-head-dim "
        "qk-pos-emb-head-dim v-head-dim moe-paged-stash-* tp-comm-bootstrap-backend tp-comm-overlap-* hybrid-override-pattern "
        "activation-offload-fraction offload-modules fine-grained-offloading-* cpu-offloading-retain-* "
        "no-pin-cpu-* overlap-cpu-optimizer-d2h-h2d use-torch-optimizer-for-cpu-offload window-attn-skip-freq "
        "moe-permute-fusion-into-hybridep fsdp-db-* main-params-dtype hierarchical-context-parallel-sizes log-max-*"
    ),
}

NOTED = {
    "attention-dropout": Noted(
        "a fused kernel keeps no mask; the time of its random numbers is not priced", unless=("0", "0.0")
    ),
    "attention-output-gate": Noted("its product and its activations are not priced", takes_memory=True),
    "cross-entropy-loss-fusion": Noted("logits are priced without fusion, which takes more memory"),
    "ddp-bucket-size": Noted("buckets of gradients are not priced"),
    "no-pad-vocab-size": Noted("the vocabulary is priced as padded"),
    "disable-pad-vocab-size": Noted("the vocabulary is priced as padded"),
    "enable-full-sharding-in-hsdp": Noted("replicas are priced with the whole state of their group"),
    "ep-overlap-early-attn-memory-release": Noted("priced without it"),
    "experimental-attention-variant": Noted("priced as attention over all positions"),
    "expert-tensor-parallel-num-weight-shards": Noted("weights are priced as held whole on their tensor ranks"),
    "fp16-lm-cross-entropy": Noted("logits are priced in fp32"),
    "fp32-residual-connection": Noted("the residual stream is priced in bf16: fp32 takes twice as much", takes_memory=True),
    "fp4-format": Noted("lcplan prices bf16"),
    "freeze-all-layers": Noted("lcplan prices training of every parameter"),
    "fsdp-double-buffer": Noted("its second buffer of gathered weights is not priced", takes_memory=True),
    "heterogeneous-layers-config-path": Noted("layers are priced as alike"),
    "heterogeneous-layers-config-encoded-json": Noted("layers are priced as alike"),
    "hybrid-context-parallel": Noted("priced as one context axis"),
    "hybrid-layer-pattern": Noted("every layer is priced as attention with a feed-forward"),
    "is-hybrid-model": Noted("every layer is priced as attention with a feed-forward"),
    "decrease-batch-size-if-needed": Noted("the batch is priced as stated"),
    "megatron-fsdp-max-pool-double-buffer": Noted("its second buffer of gathered weights is not priced", takes_memory=True),
    "mlp-chunks-for-training": Noted("the feed-forward is priced for all tokens at once"),
    "moe-apply-probs-on-input": Noted("routing weights are priced at the input of the last product"),
    "moe-latent-size": Noted("rows are priced with all features of the stream"),
    "moe-layer-recompute": Noted("an old key: use --recompute-granularity selective --recompute-modules moe"),
    "moe-paged-stash": Noted("activations of experts are priced on the device"),
    "moe-router-padding-for-fp8": Noted("padded rows are not priced"),
    "moe-router-padding-for-quantization": Noted("padded rows are not priced"),
    "moe-shared-expert-overlap": Noted("the dispatch is priced without overlap"),
    "moe-use-upcycling": Noted("only the model with experts is priced"),
    "outer-dp-sharding-strategy": Noted("replicas are priced with the whole state of their group", unless=("no_shard",)),
    "overlap-dispatch-backward-with-experts-wgrad": Noted("the dispatch is priced without overlap"),
    "overlap-moe-expert-parallel-comm": Noted("the dispatch is priced without overlap"),
    "rampup-batch-size": Noted("the batch is priced as --global-batch-size"),
    "reset-attention-mask": Noted("attention is priced over whole sequences; give --document-len for their documents"),
    "sft": Noted("sequences are priced as full"),
    "spec": Noted("layers are priced as Megatron's usual ones"),
    "squared-relu": Noted("the feed-forward is priced as gated"),
    "step-batch-size-schedule": Noted("the batch is priced as --global-batch-size"),
    "tensor-parallel-num-weight-shards": Noted("weights are priced as held whole on their tensor ranks"),
    "use-nccl-ub": Noted("collectives are priced without registered buffers", takes_memory=True),
}

ROLES = Roles(read=READ, harmless=HARMLESS, noted=NOTED)
