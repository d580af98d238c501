# One image for both stages: training on Vertex AI or Kubernetes, and the workers of Dataflow.
#
#   docker build -t REGION-docker.pkg.dev/PROJECT/REPOSITORY/estimator-pipeline:1 . && docker push ...
#
# Then name it in the config: gcp.image. About 2 GB, most of it TensorFlow.
FROM python:3.11-slim

# A worker of Dataflow would make an environment of its own, where only root may write.
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONPATH=/app \
    RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1

WORKDIR /app
COPY requirements.lock ./
RUN pip install --require-hashes -r requirements.lock

# What machines with GPUs need besides, without which they train on their CPUs: --build-arg CUDA=yes
ARG CUDA=
RUN test -z "${CUDA}" || pip install "tensorflow[and-cuda]==2.15.1"

# What starts a worker of Dataflow; of the version that the lock file has.
COPY --from=apache/beam_python3.11_sdk:2.72.0 /opt/apache/beam /opt/apache/beam

COPY configs configs
COPY pipeline pipeline
COPY preprocessing preprocessing
COPY serving serving
COPY trainer trainer

# Dataflow mounts a folder of its workers for root. Where they may not write there, build an image
# for them alone with --build-arg RUN_AS=root; training needs nothing of the kind.
ARG RUN_AS=pipeline
RUN useradd --create-home --uid 1000 pipeline
USER ${RUN_AS}

# Vertex AI and Kubernetes name their own command.
ENTRYPOINT ["/opt/apache/beam/boot"]
