#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds Multus and whereabouts, in the versions that go.mod beside this script
# requires, and puts their CustomResourceDefinitions beside them.
#
#   hack/cni/build.sh OUTPUT_DIR
#
# The binaries are static: they run in images without a base, and the CNI
# plugins on any node. OUTPUT_DIR/crds gets the manifests of the modules.
set -eu

multus=gopkg.in/k8snetworkplumbingwg/multus-cni.v4
whereabouts=github.com/k8snetworkplumbingwg/whereabouts
attachments=github.com/k8snetworkplumbingwg/network-attachment-definition-client

if [ $# -ne 1 ]; then
	echo "usage: $0 OUTPUT_DIR" >&2
	exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"

new=$out/.new
trap 'rm -rf "$new"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
rm -rf "$new"
mkdir -p "$new/bin" "$new/crds"

version() { go list -m -f '{{.Version}}' "$1"; }
folder() { go list -m -f '{{.Dir}}' "$1"; }

# Both print their version from variables that only their own scripts set.
ldflags="-s -w -X $multus/pkg/multus.version=$(version $multus) -X $whereabouts/pkg/version.Version=$(version $whereabouts)"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "$ldflags" -o "$new/bin/" \
	$multus/cmd/multus $whereabouts/cmd $whereabouts/cmd/controlloop $whereabouts/cmd/reconciler $whereabouts/cmd/nodeslicecontroller

cp "$(folder $whereabouts)"/doc/crds/whereabouts.cni.cncf.io_*.yaml "$(folder $attachments)/artifacts/networks-crd.yaml" "$new/crds/"
# The module cache is read-only, and so are copies of its files.
chmod -R u+w "$new/crds"

cd "$new/bin"
mv -f multus "$out/multus"
mv -f cmd "$out/whereabouts"
mv -f controlloop "$out/whereabouts-controlloop"
mv -f reconciler "$out/whereabouts-reconciler"
mv -f nodeslicecontroller "$out/whereabouts-nodeslice"
rm -rf "$out/crds"
mv "$new/crds" "$out/crds"
