# From the root of the repository:
#   docker build -f deploy/docker/agent.Dockerfile -t muster-agent:0.1.0 .
# The base is the newest patch, with its security fixes. To make the very same image again, name the
# one that it was made from: --build-arg PYTHON=python:3.13-slim@sha256:…
# Every node with GPUs pulls it: the scheduler's packages without what serves and plans, and with what
# asks NVML and the kubelet's socket (docs/agent.md).
ARG PYTHON=python:3.13-slim
FROM ${PYTHON} AS packages
COPY locks/agent.txt /tmp/lock.txt
# What is removed is never imported here, and was a third of all: 218 MB became 135.
RUN python -m pip install --no-cache-dir --no-compile --require-hashes --only-binary=:all: \
    --target=/packages -r /tmp/lock.txt \
    && cd /packages && rm -rf kubernetes/aio kubernetes/e2e_test fastapi starlette uvicorn uvloop \
    networkx aiohttp aiohttp_retry yarl multidict frozenlist propcache \
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
# The DaemonSet runs it as root, to whom the kubelet's list of devices belongs; nothing else needs it.
USER 65532:65532
ENTRYPOINT ["muster"]
CMD ["agent"]
