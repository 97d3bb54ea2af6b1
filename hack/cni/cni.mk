# SPDX-License-Identifier: Apache-2.0
#
# Multus and whereabouts from Go modules, for clusters of our own. CNI_BIN gets
# the binaries and, in crds/, their CustomResourceDefinitions.
#
#   WHEREABOUTS  its minor version: 0.8, 0.7 or 0.6; empty for the newest

WHEREABOUTS ?=

CNI_BIN       := bin/cni
CNI_BUILT     := $(CNI_BIN)/.built$(WHEREABOUTS:%=-%)
CNI_MANIFESTS := $(if $(WHEREABOUTS),hack/cni/before-0.9,hack/cni/manifests)

##@ Cluster

.PHONY: cni
cni: $(CNI_BUILT) ## Build Multus and whereabouts into bin/cni (WHEREABOUTS: 0.8, 0.7 or 0.6; empty for the newest)

$(CNI_BUILT): hack/cni/build.sh hack/cni/go.mod hack/cni/go.sum $(WHEREABOUTS:%=hack/whereabouts/go-%.mod)
	@$(STEP) "building Multus and whereabouts$(WHEREABOUTS:%= %) into $(CNI_BIN)" hack/cni/build.sh $(CNI_BIN) $(WHEREABOUTS)
	@touch $@
