#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds Multus and whereabouts, in the versions that go.mod beside this script
# requires, and puts their CustomResourceDefinitions beside them. With MINOR,
# whereabouts is the version that go-MINOR.mod of hack/whereabouts requires: its
# reconciler is a part of the control loop, and it has no node slices.
#
#   hack/cni/build.sh OUTPUT_DIR [MINOR]
#
# The binaries are static: they run in images without a base, and the CNI
# plugins on any node. OUTPUT_DIR/crds gets the manifests of the modules.
set -eu

multus=gopkg.in/k8snetworkplumbingwg/multus-cni.v4
whereabouts=github.com/k8snetworkplumbingwg/whereabouts
attachments=github.com/k8snetworkplumbingwg/network-attachment-definition-client

if [ $# -ne 1 ] && [ $# -ne 2 ]; then
	echo "usage: $0 OUTPUT_DIR [MINOR]" >&2
	exit 2
fi
minor=${2-}
if [ -n "$minor" ] && [ ! -f "$(dirname "$0")/../whereabouts/go-$minor.mod" ]; then
	echo "whereabouts \"$minor\" cannot be built: expected 0.8, 0.7 or 0.6 (WHEREABOUTS), or none for the newest" >&2
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

# of prints something of a module: in TEMPLATE, and by the module file of MINOR where that is given.
of() { (cd "$1" && go list ${4:+-modfile="$4"} -m -f "$3" "$2"); }

if [ -n "$minor" ]; then
	folder=../whereabouts modfile=go-$minor.mod programs="$whereabouts/cmd $whereabouts/cmd/controlloop"
else
	folder=. modfile= programs="$whereabouts/cmd $whereabouts/cmd/controlloop $whereabouts/cmd/reconciler $whereabouts/cmd/nodeslicecontroller"
fi

# Both print their version from variables that only their own scripts set.
build() {
	in=$1 file=$2 flags=$3
	shift 3
	(cd "$in" && CGO_ENABLED=0 go build ${file:+-modfile="$file"} -trimpath -buildvcs=false -ldflags "-s -w -X $flags" -o "$new/bin/" "$@")
}
build . "" "$multus/pkg/multus.version=$(of . $multus '{{.Version}}')" $multus/cmd/multus
# shellcheck disable=SC2086 # several programs
build $folder "$modfile" "$whereabouts/pkg/version.Version=$(of $folder $whereabouts '{{.Version}}' $modfile)" $programs

cp "$(of $folder $whereabouts '{{.Dir}}' $modfile)"/doc/crds/whereabouts.cni.cncf.io_*.yaml \
	"$(of . $attachments '{{.Dir}}')/artifacts/networks-crd.yaml" "$new/crds/"
# The module cache is read-only, and so are copies of its files.
chmod -R u+w "$new/crds"

# What is there may be of another version of whereabouts.
rm -rf "$out"/whereabouts* "$out"/crds "$out"/.built*
cd "$new/bin"
mv -f cmd whereabouts
mv -f controlloop whereabouts-controlloop
if [ -z "$minor" ]; then
	mv -f reconciler whereabouts-reconciler
	mv -f nodeslicecontroller whereabouts-nodeslice
fi
mv -f ./* "$out"
mv "$new/crds" "$out/crds"
