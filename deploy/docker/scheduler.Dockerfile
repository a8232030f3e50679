# From the root of the repository:
#   docker build -f deploy/docker/scheduler.Dockerfile -t muster-scheduler:0.1.0 .
# The base is the newest patch, with its security fixes. To make the very same image again, name the
# one that it was made from: --build-arg PYTHON=python:3.13-slim@sha256:…
ARG PYTHON=python:3.13-slim
FROM ${PYTHON} AS packages
# --build-arg LOCK=otel adds what traces need (docs/observability.md): 9 MB more.
ARG LOCK=scheduler
COPY locks/${LOCK}.txt /tmp/lock.txt
# What is removed is never imported, and was a quarter of all: 197 MB became 144.
RUN python -m pip install --no-cache-dir --no-compile --require-hashes --only-binary=:all: \
    --target=/packages -r /tmp/lock.txt \
    && rm -rf /packages/kubernetes/aio /packages/kubernetes/e2e_test \
    && find /packages -type d -name tests -prune -exec rm -rf {} +

FROM ${PYTHON}
ENV PYTHONPATH=/opt/muster:/opt/muster/packages \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=packages /packages /opt/muster/packages
COPY scheduler /opt/muster/scheduler
# Compiled here, because the container cannot write beside its code.
RUN printf '#!/bin/sh\nexec python -m scheduler "$@"\n' > /usr/local/bin/muster \
    && chmod 0755 /usr/local/bin/muster \
    && python -m compileall -q /opt/muster
USER 65532:65532
ENTRYPOINT ["muster"]
CMD ["serve"]
