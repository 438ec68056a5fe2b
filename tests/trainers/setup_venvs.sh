#!/usr/bin/env bash
# Pythons with the trainers' real packages, for the tests marked `trainers` and for `lcplan export --check`.
#   tests/trainers/setup_venvs.sh [maxtext] [maxtext-compile] [torch] [levanter]        (default: all; about 12 GB on disk)
# They land in .trainers/NAME (or in $LCPLAN_TRAINERS/NAME). All need Python 3.12; without one the script says so and ends well.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=${LCPLAN_TRAINERS:-.trainers}

python=""
for candidate in "${PYTHON312:-}" python3.12 "$HOME"/.pyenv/versions/3.12*/bin/python3.12; do
  [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null && { python=$candidate; break; }
done
[ -n "$python" ] || { echo "no Python 3.12 here (set PYTHON312): the trainers' packages need it; their tests will skip"; exit 0; }

install() {  # install NAME PACKAGE...
  local name=$1; shift
  [ -x "$root/$name/bin/python" ] || "$python" -m venv "$root/$name"
  "$root/$name/bin/python" -m pip install --quiet "$@"
}

for what in "${@:-maxtext maxtext-compile torch levanter}"; do for name in $what; do
  case $name in
    maxtext)  # its configuration and validator: 0.8 GB
      install maxtext "maxtext==0.2.5" "jax==0.11.2" pydantic omegaconf jinja2 pyyaml flax packaging pathwaysutils ;;
    maxtext-compile)  # its train_compile for TPU too: 2.6 GB
      install maxtext "maxtext==0.2.5" "jax==0.11.2" pydantic omegaconf jinja2 pyyaml flax packaging pathwaysutils huggingface_hub \
        transformers grain drjax jaxtyping qwix aqtp pillow tokamax tiktoken sentencepiece sympy "libtpu==0.0.48.*" ;;
    torch)  # Megatron, torchtitan, Accelerate, DeepSpeed: 6 GB, most of it torch
      install torch torch transformers "accelerate==1.15.0" "torchtitan==0.3.0" "deepspeed==0.19.8"
      install torch --no-deps "megatron-core==0.19.2" ;;
    levanter)  # 1.8 GB
      install levanter --pre "marin-levanter==0.2.227.dev40316220070" ;;
    *) echo "unknown: $name (maxtext, maxtext-compile, torch, levanter)" >&2; exit 2 ;;
  esac
  echo "$name is in $root"
done; done
