#!/usr/bin/env bash
# A kind cluster with GPU nodes that have no GPUs, Muster on it, the first examples, and how long a
# gang takes that asks for half of the GPUs, by one a pod.
#
#   deploy/kind/up.sh          makes the cluster, or brings it up to date
#   kind delete cluster --name muster
#
# Needs docker, kind and kubectl, about 4 GB of memory, and a network to pull images from. The GPUs
# are numbers in the status of the nodes: pods that ask for them start, and find none.
#
#   CLUSTER      name of the cluster (muster)
#   KIND_IMAGE   node image, for another version of Kubernetes (what your kind brings)
#   WORKERS      number of GPU nodes, two to a rack, four to a block (4)
#   GPUS         of each node (8)
set -euo pipefail

CLUSTER=${CLUSTER:-muster}
WORKERS=${WORKERS:-4}
GPUS=${GPUS:-8}
IMAGE=muster-scheduler:0.1.0
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT

say() { printf '\n== %s\n' "$*"; }

fail() {
  printf 'up.sh: %s\n' "$*" >&2
  exit 1
}

kube() { kubectl --context "kind-$CLUSTER" "$@"; }

check_tools() {
  local tool
  for tool in docker kind kubectl; do
    command -v "$tool" >/dev/null || fail "$tool is not in the search path; install it first"
  done
  docker info >/dev/null 2>&1 || fail "docker does not answer; start it, or check your rights"
  [[ $WORKERS =~ ^[1-9][0-9]*$ ]] || fail "WORKERS=$WORKERS is not a number from 1"
  [[ $GPUS =~ ^[1-9][0-9]*$ ]] || fail "GPUS=$GPUS is not a number from 1"
}

cluster_file() {
  local number
  printf 'kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n  - role: control-plane\n'
  for ((number = 0; number < WORKERS; number++)); do
    printf '  - role: worker\n    labels:\n'
    printf '      example.com/block: b%d\n' $((number / 4))
    printf '      example.com/rack: r%d\n' $((number / 2))
  done
}

make_cluster() {
  if kind get clusters 2>/dev/null | grep -qx "$CLUSTER"; then
    say "cluster $CLUSTER is there"
    return
  fi
  say "cluster $CLUSTER with $WORKERS workers"
  cluster_file >"$SCRATCH/cluster.yaml"
  kind create cluster --name "$CLUSTER" --config "$SCRATCH/cluster.yaml" \
    ${KIND_IMAGE:+--image "$KIND_IMAGE"} --wait 180s
}

add_gpus() {
  local node
  say "$GPUS GPUs on each worker, in its status alone"
  for node in $(kube get nodes --selector '!node-role.kubernetes.io/control-plane' --output name); do
    kube patch "$node" --subresource=status --type=merge --patch \
      "{\"status\":{\"capacity\":{\"nvidia.com/gpu\":\"$GPUS\"},\"allocatable\":{\"nvidia.com/gpu\":\"$GPUS\"}}}"
  done
}

load_image() {
  say "image $IMAGE"
  docker build --file "$ROOT/deploy/docker/scheduler.Dockerfile" --tag "$IMAGE" "$ROOT"
  kind load docker-image "$IMAGE" --name "$CLUSTER"
}

# The kube-scheduler beside Muster must not be newer than the API server.
server_version() {
  kube get --raw /version | sed -n 's/.*"gitVersion": *"\(v[0-9.]*\).*/\1/p'
}

install_muster() {
  local version
  version=$(server_version)
  say "Muster, beside kube-scheduler $version"
  kube kustomize "$ROOT/deploy/overlays/kind" |
    sed "s|kube-scheduler:v[0-9.]*|kube-scheduler:$version|" |
    kube apply --server-side --force-conflicts --filename -
  kube --namespace muster-system rollout restart deployment/muster
  kube --namespace muster-system rollout status deployment/muster --timeout=300s
}

run_examples() {
  say "a pair of pods that start together, one by itself, and one without GPU"
  kube apply --filename "$ROOT/deploy/examples/plain-pods.yaml"
  kube wait --for=jsonpath='{.spec.nodeName}' --timeout=120s \
    pod/pair-0 pod/pair-1 pod/alone pod/no-gpu
  kube get pods --output wide
}

burst() {
  cat <<END
apiVersion: batch/v1
kind: Job
metadata:
  name: burst
spec:
  completionMode: Indexed
  completions: $1
  parallelism: $1
  template:
    spec:
      schedulerName: muster
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
        - name: main
          image: python:3.13-slim
          command: [sleep, "3600"]
          resources:
            requests:
              cpu: 10m
              memory: 16Mi
            limits:
              nvidia.com/gpu: "1"
END
}

# What Muster itself measured: seconds, over all gangs so far.
print_times() {
  kube get --raw /api/v1/namespaces/muster-system/services/muster:http/proxy/metrics |
    grep -E '^muster_gang_(wait|start)_seconds_(sum|count)'
}

run_benchmark() {
  local pods=$((WORKERS * GPUS / 2))
  if ((pods < 2)); then
    say "no benchmark: $WORKERS workers of $GPUS GPUs have no room for a gang"
    return
  fi
  say "a gang of $pods pods: seconds it waited for room, and seconds from its first Binding to its last"
  kube delete job/burst --ignore-not-found --wait --timeout=120s
  burst "$pods" | kube apply --filename -
  kube wait job/burst --for=jsonpath='{.status.active}'="$pods" --timeout=120s
  kube wait pods --selector batch.kubernetes.io/job-name=burst \
    --for=jsonpath='{.spec.nodeName}' --timeout=120s
  print_times
  kube delete job/burst --wait=false
}

check_tools
make_cluster
add_gpus
load_image
install_muster
run_examples
run_benchmark
say "kubectl --context kind-$CLUSTER -n muster-system port-forward service/muster 8086"
say "then http://127.0.0.1:8086/ shows the cluster"
