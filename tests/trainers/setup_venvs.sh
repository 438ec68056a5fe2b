#!/usr/bin/env bash
# Pythons with the trainers' real packages, for the tests marked `trainers` and for `lcplan export --check`.
#   tests/trainers/setup_venvs.sh [ENVIRONMENT | TRAINER | maxtext-compile]..        (default: all; about 12 GB on disk)
# Each trainer's requirements.txt names its environment and pins its package: maxtext 0.8 GB, with its train_compile
# (maxtext-compile) 2.6 GB, levanter 1.8 GB, torch (Megatron, torchtitan, Accelerate, DeepSpeed) 6 GB.
# They land in .trainers/ENVIRONMENT (or in $LCPLAN_TRAINERS/ENVIRONMENT). All need Python 3.12; without one the script says so and ends well.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=${LCPLAN_TRAINERS:-.trainers}
folders=planner/trainers

python=""
for candidate in "${PYTHON312:-}" python3.12 "$HOME"/.pyenv/versions/3.12*/bin/python3.12; do
  [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null && { python=$candidate; break; }
done
[ -n "$python" ] || { echo "no Python 3.12 here (set PYTHON312): the trainers' packages need it; their tests will skip"; exit 0; }

files() {  # the requirements of an environment or of a trainer; maxtext-compile is requirements-compile.txt of maxtext
  local found
  if [ "$1" = all ]; then found=$(ls $folders/*/requirements*.txt)
  elif [ -f "$folders/$1/requirements.txt" ]; then found=$folders/$1/requirements.txt
  elif [ -f "$folders/${1%%-*}/requirements-${1#*-}.txt" ]; then found=$folders/${1%%-*}/requirements-${1#*-}.txt
  else found=$(grep -lx "# environment: $1" $folders/*/requirements.txt || true); fi
  [ -n "$found" ] || { echo "unknown: $1" >&2; return 2; }
  echo "$found"
}

for name in "${@:-all}"; do
  chosen=$(files "$name")
  for file in $chosen; do
    environment=$(sed -n 's/^# environment: //p' "$file")
    [ -x "$root/$environment/bin/python" ] || "$python" -m venv "$root/$environment"
    # shellcheck disable=SC2046  # words of options
    "$root/$environment/bin/python" -m pip install --quiet $(sed -n 's/^# pip: //p' "$file") -r "$file"
    echo "$(basename "$(dirname "$file")") is in $root/$environment"
  done
done
