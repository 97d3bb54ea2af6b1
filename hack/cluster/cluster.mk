# SPDX-License-Identifier: Apache-2.0
#
# A real cluster on this machine: hack/cluster/README.md. Needs root and Linux.
#
#   NODES          how many nodes, 1 to 8
#   PLATFORM       k3s gives Kubernetes' components that name; empty for their own
#   CONTAINERD     its minor version (hack/containerd); empty for Debian's
#   WHEREABOUTS    its minor version (hack/cni); empty for the newest
#   CLUSTER_FLAGS  further flags of `holdfast-cluster up`

NODES         ?= 2
CLUSTER_FLAGS ?=
PLATFORM      ?=

##@ Cluster

.PHONY: build-cluster
build-cluster: ## Build bin/holdfast-cluster, which runs a real cluster on this machine
	@$(STEP) "building bin/holdfast-cluster" env CGO_ENABLED=0 \
	  go -C hack/cluster build -trimpath -o $(CURDIR)/bin/holdfast-cluster .

.PHONY: cluster-up
cluster-up: kube containerd cluster-images images build-cluster ## Bring up a real cluster with NODES nodes (CONTAINERD, WHEREABOUTS, PLATFORM=k3s; root, Linux)
	@$(STEP) "bringing the cluster up" bin/holdfast-cluster up --nodes $(NODES) --kube $(KUBE_BIN) $(CONTAINERD_BIN:%=--containerd %) $(PLATFORM:%=--platform %) \
	  --manifests $(CNI_MANIFESTS),hack/certmanager/manifests $(CLUSTER_FLAGS)

.PHONY: cluster-down
cluster-down: build-cluster ## Take the cluster down and prove that nothing is left
	@$(STEP) "taking the cluster down" bin/holdfast-cluster down

.PHONY: cluster-smoke
cluster-smoke: build-cluster ## Show on the running cluster that pods, nodes and faults work
	@$(STEP) "trying the cluster" bin/holdfast-cluster smoke
