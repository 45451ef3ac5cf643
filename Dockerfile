# Chat server images. Two targets:
#
#   docker build -t chat-server .                       the GPU image (the last stage): CUDA 12.4
#   docker build -t chat-server:cpu --target cpu .      the same server on a CPU
#
# The engine's pins come from requirements/engine-*.txt, the same files that `make` installs from.
# Build arguments:
#   ENGINE_PINS       cu124 (default) or cu130: which pins, and with them which CUDA base, the GPU image gets
#   BASE_IMAGE        another base for whatever is built; empty takes the default of the target
#   FLASHINFER_WHEEL  where the wheel of requirements/engine-cu124-flashinfer.txt is: its URL, a page that
#                     links to it, or a folder; empty leaves FlashInfer out
#   TORCH_CPU_INDEX   package index with the CPU build of torch; empty: pip's own index, or the folder below
#   PIP_INDEX_URL     a mirror of PyPI;  PYTHON_MIRROR: a mirror of the Python builds that uv downloads
#   VERSION, REVISION of the source, for the labels
# A site that can't reach one of these hosts hands wheels in from a folder:
#   docker build --build-context wheels=DIR --build-arg FLASHINFER_WHEEL=/wheels .
ARG BASE_IMAGE=
ARG ENGINE_PINS=cu124

# ------------------------------------------------------------------------------------------ bases
# `devel` and not `runtime`: SGLang compiles the kernels that no wheel carries (a head size outside
# FlashInfer's prebuilt set, DeepGEMM for block-wise FP8, nearly everything in the cu130 line) with
# nvcc and the full CUDA headers. That happens before /health/ready turns 200 and is kept in a volume.
# PYTHON is the version that a line's pins were locked on.
# These labels repeat pins; tests/container/run.sh fails when they differ from requirements/.
FROM ${BASE_IMAGE:-nvidia/cuda:12.4.1-devel-ubuntu22.04} AS base-cu124
LABEL chat-server.engine.pins="cu124" \
      chat-server.engine.sglang="0.4.6.post5" \
      chat-server.engine.torch="2.6.0" \
      chat-server.engine.cuda="12.4"
ARG PYTHON=3.11
ARG FLASHINFER_WHEEL=https://github.com/flashinfer-ai/flashinfer/releases/download/v0.2.5/flashinfer_python-0.2.5%2Bcu124torch2.6-cp38-abi3-linux_x86_64.whl#sha256=43d767b912c0c43a04be99595e0123eab9385fc72530a2874b5fb08e3145c0be

FROM ${BASE_IMAGE:-nvidia/cuda:13.0.2-devel-ubuntu24.04} AS base-cu130
LABEL chat-server.engine.pins="cu130" \
      chat-server.engine.sglang="0.5.23" \
      chat-server.engine.torch="2.14.1" \
      chat-server.engine.cuda="13.0"
ARG PYTHON=3.12
# This line's FlashInfer is on PyPI and among its pins.
ARG FLASHINFER_WHEEL=

FROM ${BASE_IMAGE:-python:3.11-slim-bookworm} AS base-cpu
LABEL chat-server.engine.pins="cpu" \
      chat-server.engine.sglang="0.5.23" \
      chat-server.engine.torch="2.13.0"

# Empty unless a build names its own: --build-context wheels=DIR
FROM scratch AS wheels

# What every target takes from the repository, in one place.
FROM scratch AS source
COPY LICENSE /srv/chat-server/LICENSE
COPY requirements /srv/chat-server/requirements
COPY app /srv/chat-server/app
COPY docker/healthcheck.py /srv/chat-server/docker/healthcheck.py

# ---------------------------------------------------------------------------------- CUDA: system
# hadolint ignore=DL3006
FROM base-${ENGINE_PINS} AS cuda-system
# gcc and Python.h: Triton builds a small launcher for each of its kernels at start-up.
# libnuma1: newer kernel libraries link to it. nvidia-smi and libcuda come from the host's driver.
# Python comes from the distribution where its python3 is the right version, else from the next stage.
RUN apt-get update \
 && case "$(apt-cache policy python3)" in \
        *"Candidate: $PYTHON."*) set -- "python$PYTHON-dev" "python$PYTHON-venv" ;; \
    esac \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates gcc libc6-dev libnuma1 tini "$@" \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --user-group --create-home --shell /usr/sbin/nologin chat \
 && install -d -o chat -g chat /data/models /data/huggingface /home/chat/.cache

# Ubuntu 22.04, the newest that NVIDIA has CUDA 12.4 images of, has Python 3.10, for which the
# pins would have to be other and older ones, and as 3.11 a release candidate that nobody repairs. So
# this is uv's managed build: a fixed release, checked against the checksum that uv carries.
FROM cuda-system AS cuda-python
ARG UV_VERSION=0.13.9
ARG PYTHON_RELEASE=3.11.18
ARG PYTHON_MIRROR=
ARG PIP_INDEX_URL=
RUN mkdir -p /opt/python \
 && if ! command -v "python$PYTHON" >/dev/null; then \
        apt-get update \
     && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-venv \
     && python3 -m venv /opt/uv \
     && /opt/uv/bin/pip install --no-cache-dir "uv==$UV_VERSION" \
     && if [ -n "$PYTHON_MIRROR" ]; then export UV_PYTHON_INSTALL_MIRROR="$PYTHON_MIRROR"; fi \
     && /opt/uv/bin/uv python install --no-bin --install-dir /opt/python "$PYTHON_RELEASE" \
     && ln -s "/opt/python/cpython-$PYTHON_RELEASE-"* /opt/python/managed; \
    fi

# ---------------------------------------------------------------------------------- CUDA: engine
FROM cuda-system AS cuda-engine
ARG ENGINE_PINS
ARG PIP_INDEX_URL=
COPY --from=cuda-python /opt/python /opt/python
ENV PATH=/opt/python/managed/bin:$PATH
COPY requirements/engine-${ENGINE_PINS}.txt requirements/engine-cu124-flashinfer.txt /opt/requirements/
# --no-deps: the file names every package, so that a later release of any of them changes nothing.
# The byte code that pip writes matters: the user who runs the server may not write here.
RUN --mount=type=cache,target=/root/.cache/pip \
    --mount=type=bind,from=wheels,target=/wheels \
    "python$PYTHON" -m venv /opt/engine \
 && /opt/engine/bin/pip install --no-deps --find-links /wheels -r "/opt/requirements/engine-$ENGINE_PINS.txt"
RUN --mount=type=bind,from=wheels,target=/wheels \
    if [ -n "$FLASHINFER_WHEEL" ]; then \
        /opt/engine/bin/pip install --no-cache-dir --no-deps --find-links "$FLASHINFER_WHEEL" \
            -r /opt/requirements/engine-cu124-flashinfer.txt; \
    fi

FROM cuda-engine AS cuda-gateway
COPY requirements/gateway.txt /opt/requirements/gateway.txt
RUN --mount=type=cache,target=/root/.cache/pip \
    "python$PYTHON" -m venv /opt/gateway \
 && /opt/gateway/bin/pip install --no-deps -r /opt/requirements/gateway.txt

# ------------------------------------------------------------------------------------ CPU: system
FROM base-cpu AS cpu-system
RUN if [ -x /usr/bin/python3.11 ]; then set -- python3.11-venv; fi \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates tini "$@" \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --user-group --create-home --shell /usr/sbin/nologin chat \
 && install -d -o chat -g chat /data/models /data/huggingface /home/chat/.cache

# ------------------------------------------------------------------------------------ CPU: engine
FROM cpu-system AS cpu-engine
ARG TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
ARG PIP_INDEX_URL=
COPY requirements/engine-cpu-torch.txt requirements/engine-cpu.txt /opt/requirements/
# torch first and from its own index: PyPI's wheel of the same version is the CUDA build.
RUN --mount=type=cache,target=/root/.cache/pip \
    --mount=type=bind,from=wheels,target=/wheels \
    python3.11 -m venv /opt/engine \
 && /opt/engine/bin/pip install --no-deps --find-links /wheels ${TORCH_CPU_INDEX:+--index-url "$TORCH_CPU_INDEX"} \
        -r /opt/requirements/engine-cpu-torch.txt \
 && /opt/engine/bin/pip install --no-deps --find-links /wheels -r /opt/requirements/engine-cpu.txt
# The platform plugin that lets SGLang run on any CPU; setuptools is among the engine's pins.
RUN --mount=type=bind,source=engine/plaincpu,target=/tmp/plaincpu,rw \
    /opt/engine/bin/pip install --no-cache-dir --no-deps --no-build-isolation /tmp/plaincpu

FROM cpu-engine AS cpu-gateway
COPY requirements/gateway.txt /opt/requirements/gateway.txt
RUN --mount=type=cache,target=/root/.cache/pip \
    python3.11 -m venv /opt/gateway \
 && /opt/gateway/bin/pip install --no-deps -r /opt/requirements/gateway.txt

# -------------------------------------------------------------------------------------- targets
# The settings' defaults for a container. HOST: the port is published by whoever runs the container.
# Models, Hugging Face's files and compiled kernels live in volumes (docker-compose.yml), never here;
# most kernel caches are in ~/.cache by themselves, the variables bring the other ones there too.
FROM cpu-gateway AS cpu
ARG VERSION=dev
ARG REVISION=
LABEL org.opencontainers.image.title="chat-server (CPU)" \
      org.opencontainers.image.description="MLflow ChatAgent server on SGLang" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
ENV HOST=0.0.0.0 \
    PORT=8080 \
    ENGINE_PYTHON=/opt/engine/bin/python \
    ENGINE_DEVICE=cpu \
    MODEL_CACHE=/data/models \
    HF_HOME=/data/huggingface \
    TRITON_CACHE_DIR=/home/chat/.cache/triton \
    TORCHINDUCTOR_CACHE_DIR=/home/chat/.cache/inductor \
    PYTHONUNBUFFERED=1 \
    PATH=/opt/gateway/bin:/opt/engine/bin:$PATH
COPY --from=source /srv /srv
WORKDIR /srv/chat-server
RUN /opt/gateway/bin/python -m compileall -q app
USER 10001:10001
EXPOSE 8080
# Healthy means: it answers. A model that loads for an hour is "starting", not "unhealthy".
HEALTHCHECK --start-period=1h --interval=10s --timeout=5s --retries=3 \
    CMD ["/opt/gateway/bin/python", "docker/healthcheck.py"]
ENTRYPOINT ["tini", "--", "/opt/gateway/bin/python", "-m", "app"]
CMD ["serve"]

FROM cuda-gateway AS cuda
ARG VERSION=dev
ARG REVISION=
LABEL org.opencontainers.image.title="chat-server (CUDA)" \
      org.opencontainers.image.description="MLflow ChatAgent server on SGLang" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
# CUDA_HOME: FlashInfer and DeepGEMM ask for it by name. PATH: FlashInfer calls the engine's ninja.
# NVIDIA_DISABLE_REQUIRE: else the container runtime refuses an old driver with an OCI error; so the
# container starts, and app/engines/host_decisions.py says which driver is needed.
ENV HOST=0.0.0.0 \
    PORT=8080 \
    ENGINE_PYTHON=/opt/engine/bin/python \
    ENGINE_DEVICE=cuda \
    MODEL_CACHE=/data/models \
    HF_HOME=/data/huggingface \
    CUDA_HOME=/usr/local/cuda \
    CUDA_CACHE_PATH=/home/chat/.cache/nv \
    TRITON_CACHE_DIR=/home/chat/.cache/triton \
    TORCHINDUCTOR_CACHE_DIR=/home/chat/.cache/inductor \
    NVIDIA_DISABLE_REQUIRE=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PYTHONUNBUFFERED=1 \
    PATH=/opt/gateway/bin:/opt/engine/bin:$PATH
COPY --from=source /srv /srv
WORKDIR /srv/chat-server
RUN /opt/gateway/bin/python -m compileall -q app
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --start-period=1h --interval=10s --timeout=5s --retries=3 \
    CMD ["/opt/gateway/bin/python", "docker/healthcheck.py"]
ENTRYPOINT ["tini", "--", "/opt/gateway/bin/python", "-m", "app"]
CMD ["serve"]
