#!/usr/bin/env bash
# Train step, policy step and a whole run in bfloat16, in less than eight minutes on a GPU.
#
#   benchmarks/gpu.sh out.jsonl
#   SIZES=size1m RUN_SECONDS=10 PYTHON=.venv/bin/python benchmarks/gpu.sh out.jsonl
#
# Appends lines of JSON to the file. Whatever fails or takes too long is named at the end.

set -uo pipefail
if [ $# -ne 1 ]; then
  echo "usage: $0 out.jsonl" >&2
  exit 2
fi
out=$1
folder=$(dirname "$0")
python=${PYTHON:-python}
sizes=${SIZES:-size1m size12m size50m size200m}
failed=()

# One process each, so that every one of them has the memory of the device to itself.
measure() {
  local limit=$1 name=$2
  shift 2
  if ! timeout "$limit" "$python" "$folder/$name.py" "$@" | tee -a "$out"; then
    failed+=("$name $*")
  fi
}

for size in $sizes; do
  measure 120 train_step --sizes "$size" --dtype bfloat16 --repeats "${REPEATS:-20}"
  measure 60 policy_step --sizes "$size" --dtype bfloat16
done
# Whether heads should read imagined states step by step there, too, where memory is short.
measure 60 train_step --sizes ${sizes%% *} --dtype bfloat16 --imag_parts steps
measure 120 end_to_end --sizes ${sizes%% *} --seconds "${RUN_SECONDS:-30}" \
  --variants without_pictures --options --jax.compute_dtype bfloat16

if [ ${#failed[@]} -gt 0 ]; then
  printf 'Failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
