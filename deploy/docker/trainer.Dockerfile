# From the root of the repository:
#   docker build -f deploy/docker/trainer.Dockerfile -t muster-trainer:0.1.0 .
# The base is the newest patch, with its security fixes. To make the very same image again, name the
# one that it was made from: --build-arg PYTHON=python:3.13-slim@sha256:…
# The wheels of torch bring CUDA and NCCL along, 5.9 GB unpacked; the driver comes from the node. They
# are a layer below Muster's own code, so that nodes which had an older image pull the code alone.
ARG PYTHON=python:3.13-slim
FROM ${PYTHON} AS packages
COPY locks/trainer.txt /tmp/lock.txt
RUN python -m pip install --no-cache-dir --no-compile --require-hashes --only-binary=:all: \
    --target=/packages -r /tmp/lock.txt

FROM ${PYTHON}
ENV PYTHONPATH=/opt/muster:/opt/muster/packages \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=packages /packages /opt/muster/packages
COPY trainer /opt/muster/trainer
# torch looks for the name of its user, which a bare number does not have.
RUN printf '#!/bin/sh\nexec python -m trainer "$@"\n' > /usr/local/bin/muster-train \
    && chmod 0755 /usr/local/bin/muster-train \
    && useradd --uid 65532 --create-home muster \
    && python -m compileall -q /opt/muster/trainer
USER 65532:65532
WORKDIR /home/muster
ENTRYPOINT ["muster-train"]
