#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs Holdfast with images of one's own where the cluster fits it, and waits until it runs.
#
#   hack/images/deploy.sh REGISTRY TAG [COMPONENT...]
#
# REGISTRY is where the images are, with their folder; COMPONENT is a folder of
# config/components. KUBECTL and KUSTOMIZE are the commands to use. Nothing in
# the work tree changes: what is installed is written to bin/deploy.
set -eu

default=ghcr.io/holdfast-dev
kubectl=${KUBECTL:-kubectl}
kustomize=${KUSTOMIZE:-kustomize}

if [ $# -lt 2 ] || [ -z "$1" ] || [ -z "$2" ]; then
	echo "usage: $0 REGISTRY TAG [COMPONENT...]" >&2
	exit 2
fi
registry=$1
tag=$2
shift 2

for component in "$@"; do
	if [ ! -f "config/components/$component/kustomization.yaml" ]; then
		echo "no component is named \"$component\": there are $(cd config/components && echo *)" >&2
		exit 2
	fi
done

# The ConfigMaps that a component replaces, those of the components that it includes among them.
replaced_by() {
	awk '$1 == "-" && $2 == "name:" { name = $3 } $1 == "behavior:" && $2 == "replace" { print name }' "config/components/$1/kustomization.yaml"
	for included in $(sed -n 's|^  - \.\./\([a-z0-9-]*\)$|\1|p' "config/components/$1/kustomization.yaml"); do
		(replaced_by "$included")
	done
}
twice=$(for component in "$@"; do replaced_by "$component"; done | sort | uniq -d)
if [ -n "$twice" ]; then
	echo "two of the components $* replace $(echo $twice), and the settings of the first would be lost:" \
		"use one of them, and set what the other has in a configuration of your own (docs/installation.md)" >&2
	exit 2
fi

if ! $kubectl get crd certificates.cert-manager.io >/dev/null; then
	echo "cert-manager was not found in this cluster (or the cluster was not reached): Holdfast needs it for the webhooks' certificate;" \
		"install it first, see https://cert-manager.io/docs/installation" >&2
	exit 1
fi

mkdir -p bin/deploy
{
	printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - ../../config/default\n'
	if [ $# -gt 0 ]; then printf 'components:\n'; fi
	for component in "$@"; do printf '  - ../../config/components/%s\n' "$component"; done
	printf 'images:\n'
	for image in holdfast-manager holdfast-agent; do
		printf '  - name: %s\n    newName: %s\n    newTag: "%s"\n' "$default/$image" "$registry/$image" "$tag"
	done
} >bin/deploy/kustomization.yaml

# In two steps, because a pipe would hide that the rendering failed.
$kustomize build -o bin/deploy/holdfast.yaml bin/deploy
# Combinations that the chart refuses, on the cluster of KUBECTL, which may have flags.
# shellcheck disable=SC2086
go run ./cmd/kubectl-holdfast doctor --manifest bin/deploy/holdfast.yaml ${kubectl#"${kubectl%% *}"}
$kubectl apply --server-side -f bin/deploy/holdfast.yaml
$kubectl rollout status --timeout=5m -n holdfast-system deployment/holdfast-manager
# An installation without agents (the component kubelet-evidence) has no such DaemonSet.
if $kubectl get daemonset -n holdfast-agent holdfast-agent >/dev/null 2>&1; then
	$kubectl rollout status --timeout=5m -n holdfast-agent daemonset/holdfast-agent
fi
