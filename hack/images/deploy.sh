#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs Holdfast with an image of one's own, and waits until it runs.
#
#   hack/images/deploy.sh IMAGE [COMPONENT...]
#
# KUBECTL and KUSTOMIZE are the commands to use. COMPONENT is a folder of
# config/components. Nothing in the work tree changes: the kustomization that
# names the image is written to bin/deploy.
set -eu

default=ghcr.io/holdfast-dev/holdfast-manager
kubectl=${KUBECTL:-kubectl}
kustomize=${KUSTOMIZE:-kustomize}

if [ $# -lt 1 ]; then
	echo "usage: $0 IMAGE [COMPONENT...]" >&2
	exit 2
fi
image=$1
shift
case ${image##*/} in
?*:?*) ;;
*)
	echo "the image is \"$image\": expected a name with a tag, like $default:v0.1.0" >&2
	exit 2
	;;
esac

if ! $kubectl get crd certificates.cert-manager.io >/dev/null; then
	echo "cert-manager was not found in this cluster (or the cluster was not reached): Holdfast needs it for the webhooks' certificate;" \
		"install it first, see https://cert-manager.io/docs/installation" >&2
	exit 1
fi

mkdir -p bin/deploy
{
	printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - ../../config/default\n'
	if [ $# -gt 0 ]; then printf 'components:\n'; fi
	for component in "$@"; do
		if [ ! -f "config/components/$component/kustomization.yaml" ]; then
			echo "no component is named \"$component\": there are $(cd config/components && echo *)" >&2
			exit 2
		fi
		printf '  - ../../config/components/%s\n' "$component"
	done
	printf 'images:\n  - name: %s\n    newName: %s\n    newTag: "%s"\n' "$default" "${image%:*}" "${image##*:}"
} >bin/deploy/kustomization.yaml

# In two steps, because a pipe would hide that the rendering failed.
$kustomize build -o bin/deploy/holdfast.yaml bin/deploy
$kubectl apply --server-side -f bin/deploy/holdfast.yaml
$kubectl rollout status --timeout=5m -n holdfast-system deployment/holdfast-manager
