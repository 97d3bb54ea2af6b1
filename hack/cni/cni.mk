# SPDX-License-Identifier: Apache-2.0
#
# Multus and whereabouts from Go modules, for clusters of our own. CNI_BIN gets
# the binaries and, in crds/, their CustomResourceDefinitions.

CNI_BIN := bin/cni

##@ Cluster

.PHONY: cni
cni: $(CNI_BIN)/.built ## Build Multus and whereabouts into bin/cni

$(CNI_BIN)/.built: hack/cni/build.sh hack/cni/go.mod hack/cni/go.sum
	@$(STEP) "building Multus and whereabouts into $(CNI_BIN)" hack/cni/build.sh $(CNI_BIN)
	@touch $@
