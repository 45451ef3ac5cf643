#!/usr/bin/env bash
# Measures this server with a real SGLang on this machine's GPU, in one go:
#
#     MODEL=/models/my-model tests/gpu/run.sh results                      # everything
#     MODEL=/models/my-model tests/gpu/run.sh results --parts speed,faults
#     ENGINE_ARGS="--load-format dummy" MODEL=/models/shape tests/gpu/run.sh results   # random weights
#
# Needs SGLang in ENGINE_PYTHON's environment (.venv-engine by default) and, for the Python that runs this
# (PYTHON, else .venv), requirements/gateway.txt and requests. Every setting of the server can be given as an
# environment variable. With random weights only figures mean anything: parts "start", "speed", "departures",
# "faults". Writes results.json, report.md and the servers' logs into the folder that is named, after each
# part anew. Takes about ten minutes on one GPU with compiled kernels, and ends whatever it starts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?which folder shall the results go to?}
shift
python=${PYTHON:-.venv/bin/python}
exec "$python" -m tests.gpu --out "$out" "$@"
