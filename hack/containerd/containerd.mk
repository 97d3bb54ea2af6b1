# SPDX-License-Identifier: Apache-2.0
#
# containerd from Go modules, for real nodes.
#
#   CONTAINERD  the minor version: 2.4, 2.2, 1.7 or 1.6; empty for the one in PATH,
#               which is Debian's

CONTAINERD     ?=
CONTAINERD_BIN := $(CONTAINERD:%=bin/containerd-%)

##@ Cluster

.PHONY: containerd
containerd: $(CONTAINERD_BIN:%=%/.built) ## Build containerd into bin/containerd-VERSION (CONTAINERD: 2.4, 2.2, 1.7 or 1.6; empty for Debian's)

bin/containerd-%/.built: hack/containerd/build.sh hack/containerd/versions
	@$(STEP) "building containerd $* into bin/containerd-$*" hack/containerd/build.sh $* bin/containerd-$*
	@touch $@
