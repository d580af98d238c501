# Two images on one base: `trainer` for training on Vertex AI and Kubernetes, as a user without rights;
# `preprocessor` for the workers of Dataflow, which need root. About 2 GB each, most of it TensorFlow.
#
#   make image IMAGE=REGION-docker.pkg.dev/PROJECT/REPOSITORY/estimator-pipeline:1
#
# builds and pushes both, and prints what to put into the config. It names the base images by digest,
# as images.lock has them.
ARG PYTHON_IMAGE
ARG BEAM_IMAGE
# What starts a worker of Dataflow; of the version that the lock file has.
FROM ${BEAM_IMAGE} AS beam

FROM ${PYTHON_IMAGE} AS base

# Where drivers are mounted: https://github.com/GoogleCloudPlatform/container-engine-accelerators
# A worker of Dataflow would make an environment of its own, where only root may write.
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONPATH=/app \
    RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    LD_LIBRARY_PATH=/usr/local/nvidia/lib64

WORKDIR /app
COPY requirements.lock ./
RUN pip install --require-hashes -r requirements.lock

COPY configs configs
COPY pipeline pipeline
COPY preprocessing preprocessing
COPY serving serving
COPY trainer trainer

FROM base AS preprocessor
# Dataflow mounts folders of root below /var/opt, and writes there as who starts the container.
COPY --from=beam /opt/apache/beam /opt/apache/beam
ENTRYPOINT ["/opt/apache/beam/boot"]

# The last one is what `docker build` makes by itself. Vertex AI and Kubernetes name their own command.
FROM base AS trainer
COPY requirements-gpu.lock ./
# What machines with GPUs need besides: make image CUDA=1
ARG CUDA=
RUN test -z "${CUDA}" || pip install --require-hashes -r requirements-gpu.lock
RUN useradd --create-home --uid 1000 pipeline
# By its number: Kubernetes cannot tell otherwise that it is not root.
USER 1000
