#!/usr/bin/env bash
# Certificates for Muster and a kube-scheduler in pods of their own (deploy/overlays/separate, or
# separate.enabled of the chart), as the Secrets muster-verbs and muster-kube-scheduler.
#
#   deploy/certificates.sh
#
# The authority that signs both is made for them, and its key is thrown away: nobody else gets a
# certificate of it. So to renew them is to call this again, and to start both anew:
#
#   kubectl -n muster-system rollout restart deployment/muster deployment/muster-kube-scheduler
#
# Needs openssl, and kubectl with the right to write Secrets.
#
#   NAMESPACE   where Muster is installed (muster-system)
#   DAYS        how long they are good for (365)
#   CONTEXT     of the kubeconfig (the current one)
set -euo pipefail

NAMESPACE=${NAMESPACE:-muster-system}
DAYS=${DAYS:-365}
umask 077
SCRATCH=$(mktemp -d)
NEW_KEY=(-config "$SCRATCH/openssl.cnf" -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
trap 'rm -rf "$SCRATCH"' EXIT

fail() {
  printf 'certificates.sh: %s\n' "$*" >&2
  exit 1
}

kube() { kubectl ${CONTEXT:+--context "$CONTEXT"} --namespace "$NAMESPACE" "$@"; }

check() {
  local tool
  for tool in openssl kubectl; do
    command -v "$tool" >/dev/null || fail "$tool is not in the search path; install it first"
  done
  [[ $DAYS =~ ^[1-9][0-9]{0,4}$ ]] || fail "DAYS=$DAYS is not a number of days from 1"
}

quietly() {
  "$@" >"$SCRATCH/told" 2>&1 || fail "$1 $2 failed: $(tail -n 3 "$SCRATCH/told")"
}

# Not what the machine's own configuration would add.
write_configuration() {
  printf '%s\n' '[req]' 'distinguished_name = empty' 'x509_extensions = authority' '[empty]' \
    '[authority]' 'basicConstraints = critical,CA:TRUE' 'keyUsage = critical,keyCertSign' \
    'subjectKeyIdentifier = hash' >"$SCRATCH/openssl.cnf"
}

make_authority() {
  quietly openssl req -x509 "${NEW_KEY[@]}" -days "$DAYS" -subj /CN=muster-authority \
    -keyout "$SCRATCH/ca.key" -out "$SCRATCH/ca.crt"
}

# sign NAME EXTENSION...
sign() {
  local name=$1
  shift
  printf '%s\n' 'basicConstraints=critical,CA:FALSE' 'keyUsage=critical,digitalSignature' "$@" \
    >"$SCRATCH/$name.ext"
  quietly openssl req "${NEW_KEY[@]}" -subj "/CN=$name" \
    -keyout "$SCRATCH/$name.key" -out "$SCRATCH/$name.csr"
  quietly openssl x509 -req -in "$SCRATCH/$name.csr" -days "$DAYS" \
    -CA "$SCRATCH/ca.crt" -CAkey "$SCRATCH/ca.key" -CAcreateserial \
    -extfile "$SCRATCH/$name.ext" -out "$SCRATCH/$name.crt"
}

# Server-side, as the other way keeps a copy of the key in an annotation.
store() {
  local name=$1
  kube create secret generic "$name" --type=kubernetes.io/tls --dry-run=client --output=yaml \
    --from-file=tls.crt="$SCRATCH/$name.crt" --from-file=tls.key="$SCRATCH/$name.key" \
    --from-file=ca.crt="$SCRATCH/ca.crt" |
    kube apply --server-side --force-conflicts --filename -
}

check
write_configuration
make_authority
sign muster-verbs extendedKeyUsage=serverAuth "subjectAltName=DNS:muster-verbs.$NAMESPACE.svc"
sign muster-kube-scheduler extendedKeyUsage=clientAuth
rm "$SCRATCH/ca.key"
store muster-verbs
store muster-kube-scheduler
