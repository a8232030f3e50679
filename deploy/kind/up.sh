#!/usr/bin/env bash
# A kind cluster with GPU nodes that have no GPUs, Muster on it with its agent and its policies, examples,
# and how long a gang takes that asks for half of the GPUs, by one a pod.
#
#   deploy/kind/up.sh          makes the cluster, or brings it up to date
#   kind delete cluster --name muster
#
# Needs docker, kind and kubectl, about 4 GB of memory, and a network to pull images from. The GPUs
# are numbers in the status of the nodes: pods that ask for them start, and find none. The examples ask
# for little memory here, and are looked at until all their pods have a node: their images need not be
# there. Where the Prometheus operator is, monitoring is installed too.
#
#   CLUSTER      name of the cluster (muster)
#   KIND_IMAGE   node image, for another version of Kubernetes (what your kind brings)
#   WORKERS      number of GPU nodes, two to a rack, four to a block (4)
#   GPUS         of each node (8)
#   EXAMPLES     those of deploy/examples that are run (plain-pods, and where there are four workers of
#                eight GPUs indexed-job, mig and gaudi); others need controllers, volumes or racks that
#                are not here
set -euo pipefail

CLUSTER=${CLUSTER:-muster}
WORKERS=${WORKERS:-4}
GPUS=${GPUS:-8}
IMAGES=(scheduler agent)
VERSION=0.1.0
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

choose_examples() {
  local name
  if [[ -z ${EXAMPLES+given} ]]; then
    EXAMPLES=plain-pods
    ((WORKERS < 4 || GPUS < 8)) || EXAMPLES="plain-pods indexed-job mig gaudi"
  fi
  for name in $EXAMPLES; do
    [[ -f $ROOT/deploy/examples/$name.yaml ]] || fail "EXAMPLES: there is no deploy/examples/$name.yaml"
  done
}

# Before 1.36, the API server is told to serve the policies (docs/versions.md).
policies_need_flags() { [[ $1 =~ v1\.([0-9]+) ]] && ((BASH_REMATCH[1] < 36)); }

cluster_file() {
  local number
  printf 'kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n'
  if policies_need_flags "${KIND_IMAGE:-}"; then
    printf 'featureGates:\n  MutatingAdmissionPolicy: true\n'
    printf 'runtimeConfig:\n  admissionregistration.k8s.io/v1beta1: "true"\n'
  fi
  printf 'nodes:\n  - role: control-plane\n'
  for ((number = 0; number < WORKERS; number++)); do
    printf '  - role: worker\n    labels:\n'
    printf '      example.com/block: b%d\n' $((number / 4))
    printf '      example.com/rack: r%d\n' $((number / 2))
    printf '      nvidia.com/gpu.present: "true"\n'
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

# What device plugins would say: GPUs, slices of some, and another maker's accelerators.
add_gpus() {
  local node room
  say "$GPUS GPUs on each worker, in its status alone"
  room="\"nvidia.com/gpu\":\"$GPUS\",\"nvidia.com/mig-3g.40gb\":\"2\",\"habana.ai/gaudi\":\"8\""
  for node in $(kube get nodes --selector '!node-role.kubernetes.io/control-plane' --output name); do
    kube patch "$node" --subresource=status --type=merge \
      --patch "{\"status\":{\"capacity\":{$room},\"allocatable\":{$room}}}"
  done
}

load_images() {
  local name image
  for name in "${IMAGES[@]}"; do
    image=muster-$name:$VERSION
    say "image $image"
    docker build --file "$ROOT/deploy/docker/$name.Dockerfile" --tag "$image" "$ROOT"
    kind load docker-image "$image" --name "$CLUSTER"
  done
}

# The kube-scheduler beside Muster must not be newer than the API server.
server_version() {
  kube get --raw /version | sed -n 's/.*"gitVersion": *"\(v[0-9.]*\).*/\1/p'
}

# For this API server: a scheduler that is not newer, and policies in the version that it serves.
fitted() {
  local policies='&'
  if policies_need_flags "$1"; then
    policies='apiVersion: admissionregistration.k8s.io/v1beta1'
  fi
  sed -e "s|kube-scheduler:v[0-9.]*|kube-scheduler:$1|" \
    -e '/^apiVersion: admissionregistration/{' -e N -e "/kind: Mutating/s|^[^\n]*|$policies|" -e '}'
}

install_muster() {
  local version
  version=$(server_version)
  say "Muster, beside kube-scheduler $version"
  kube kustomize "$ROOT/deploy/overlays/kind" | fitted "$version" |
    kube apply --server-side --force-conflicts --filename -
  if kube get crd podmonitors.monitoring.coreos.com prometheusrules.monitoring.coreos.com >/dev/null 2>&1; then
    say "monitoring, as the Prometheus operator is here"
    kube apply --server-side --force-conflicts --filename "$ROOT/deploy/components/monitoring/pod-monitor.yaml" \
      --filename "$ROOT/deploy/components/monitoring/rules.yaml" \
      --filename "$ROOT/deploy/components/monitoring/dashboard.yaml"
  fi
  kube --namespace muster-system rollout restart deployment/muster
  kube --namespace muster-system rollout status deployment/muster --timeout=300s
  kube --namespace muster-agent rollout status daemonset/muster-agent --timeout=300s
}

# With room for several on one machine, whose memory and huge pages are what they are.
small() {
  sed -E -e '/hugepages-/d' -e 's/^( *memory:).*/\1 64Mi/' -e 's/^( *cpu:).*/\1 10m/' \
    "$ROOT/deploy/examples/$1.yaml"
}

# The Jobs of a file with their number of pods: NAME COUNT.
jobs_of() {
  small "$1" | kube get --filename - --output \
    jsonpath='{range .items[?(@.kind=="Job")]}{.metadata.name}{" "}{.spec.parallelism}{"\n"}{end}'
}

run_example() {
  local name=$1 jobs job pods
  say "example $name: all its pods get a node"
  small "$name" | kube apply --filename -
  if [[ $name == plain-pods ]]; then
    kube wait --for=jsonpath='{.spec.nodeName}' --timeout=120s \
      pod/pair-0 pod/pair-1 pod/alone pod/no-gpu
  fi
  jobs=$(jobs_of "$name")
  while read -r job pods; do
    [[ -n $job ]] || continue
    kube wait "job/$job" --for=jsonpath='{.status.active}'="$pods" --timeout=120s
    kube wait pods --selector "batch.kubernetes.io/job-name=$job" \
      --for=jsonpath='{.spec.nodeName}' --timeout=120s
  done <<<"$jobs"
  kube get pods --output wide
  small "$name" | kube delete --filename - --wait --timeout=120s
}

run_examples() {
  local name
  for name in $EXAMPLES; do
    run_example "$name"
  done
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
choose_examples
make_cluster
add_gpus
load_images
install_muster
run_examples
run_benchmark
say "kubectl --context kind-$CLUSTER -n muster-system port-forward service/muster 8086"
say "then http://127.0.0.1:8086/ shows the cluster"
