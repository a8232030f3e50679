# From the root of the repository:
#   docker build -f deploy/docker/scheduler.Dockerfile -t muster-scheduler:0.1.0 .
FROM python:3.13-slim AS packages
COPY locks/scheduler.txt /tmp/lock.txt
RUN python -m pip install --no-cache-dir --no-compile --require-hashes --only-binary=:all: \
    --target=/packages -r /tmp/lock.txt

FROM python:3.13-slim
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
