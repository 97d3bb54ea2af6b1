# SPDX-License-Identifier: Apache-2.0
#
# `make` alone lists the targets. A target's description is the text after `##`
# on its line. Nothing here needs root; everything built goes to bin/.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The rule markers (+kubebuilder:rbac) stand beside the code that needs the
# permission; these are the folders that may have them.
RBAC_ROOTS := $(wildcard controllers webhooks internal/ipam internal/finalizer cmd/manager)

# The modules whose code the linters read.
LINTED := $(patsubst %/,%,$(dir $(wildcard go.mod hack/dev/go.mod hack/cluster/go.mod hack/images/go.mod hack/certmanager/go.mod hack/promql/go.mod)))

STEP          := $(CURDIR)/hack/step
GOTEST         = go run ./hack/gotest -assets $(KUBE_BIN)
TOOLS         := $(CURDIR)/hack/tools
CONTROLLERGEN := go tool -modfile=$(TOOLS)/controller-gen/go.mod controller-gen
GOLANGCI      := go tool -modfile=$(TOOLS)/golangci-lint/go.mod golangci-lint
ACTIONLINT    := go tool -modfile=$(TOOLS)/actionlint/go.mod actionlint
GOVULNCHECK   := go tool -modfile=$(TOOLS)/govulncheck/go.mod govulncheck
KUSTOMIZE     := go tool -modfile=$(TOOLS)/kustomize/go.mod kustomize

include $(wildcard hack/*/*.mk)

##@ General

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  FNR == 1 { section = "Build" } \
	  /^##@ / { section = substr($$0, 5); if (!(section in lines)) order[++n] = section } \
	  /^[a-z][a-z0-9-]*:.*## / { lines[section] = lines[section] sprintf("  %-17s %s\n", $$1, $$2) } \
	  END { for (i = 1; i <= n; i++) printf "%s%s\n%s", (i > 1 ? "\n" : ""), order[i], lines[order[i]] }' \
	  $(MAKEFILE_LIST)

##@ Build

.PHONY: build
build: ## Build the commands into bin/
	@$(STEP) "building the commands into bin/" env CGO_ENABLED=0 \
	  go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/ ./cmd/...

.PHONY: build-dev
build-dev: ## Build bin/holdfast-dev, which runs the control plane and the simulated nodes
	@$(STEP) "building bin/holdfast-dev" env CGO_ENABLED=0 \
	  go -C hack/dev build -trimpath -o $(CURDIR)/bin/holdfast-dev .

.PHONY: generate
generate: ## Write the generated Go code (deep copies) and tables of docs/reference
	@$(STEP) "generating deep copies" \
	  $(CONTROLLERGEN) object:headerFile=hack/boilerplate.go.txt paths=./api/v1alpha1/...
	@$(STEP) "generating the tables of the configuration pages" \
	  go test -count=1 ./test/seeing -run '^TestReference|^TestConfigurationReference' -update

.PHONY: manifests
manifests: ## Write the generated manifests (CRDs, the roles)
	@$(STEP) "generating CRDs" \
	  $(CONTROLLERGEN) crd paths=./api/v1alpha1/... output:crd:artifacts:config=config/crd/bases
	@$(STEP) "generating the manager's role" \
	  $(CONTROLLERGEN) rbac:roleName=holdfast-manager $(RBAC_ROOTS:%=paths=./%/...) output:rbac:artifacts:config=config/rbac
	@$(STEP) "generating the agent's role" \
	  $(CONTROLLERGEN) rbac:roleName=holdfast-agent paths=./internal/agent/... output:rbac:artifacts:config=config/agent

.PHONY: clean
clean: ## Stop what dev-up and cluster-up started and remove bin/
	@if [ -x bin/holdfast-dev ] && [ -d bin/dev ]; then bin/holdfast-dev down; fi
	@if [ -x bin/holdfast-cluster ] && [ -d bin/cluster ]; then bin/holdfast-cluster down; fi
	rm -rf bin

##@ Check

.PHONY: fmt
fmt: ## Format the Go code
	@failed=; for module in $(LINTED); do cd $(CURDIR)/$$module && \
	  $(STEP) "formatting module $$module" $(GOLANGCI) fmt ./... || failed=1; done; test -z "$$failed"

.PHONY: lint
lint: ## Run the linters
	@failed=; for module in $(LINTED); do cd $(CURDIR)/$$module && \
	  $(STEP) "linting module $$module" $(GOLANGCI) run --allow-parallel-runners ./... || failed=1; done; test -z "$$failed"

.PHONY: tidy-check
tidy-check: ## Check that every go.mod is tidy
	@failed=; for file in $$(git ls-files --cached --others --exclude-standard '*go.mod'); do \
	  $(STEP) "checking that $$file is tidy" go -C $$(dirname $$file) mod tidy -diff || failed=1; done; test -z "$$failed"

# Every module but those that build other projects' programs in chosen, often old, versions for tests, and hack/crds, of which only manifests are read:
# nothing of them is released or runs elsewhere.
# A new module is checked without being named here. Of a module below hack/tools its tool is checked. VULNDB is another database than vuln.go.dev,
# such as file:///path of a folder of OSV files.
VULN_EXEMPT  := hack/kube hack/cni hack/whereabouts hack/crds
VULN_MODULES  = $(filter-out $(VULN_EXEMPT),$(patsubst %/,%,$(dir $(shell git ls-files --cached --others --exclude-standard 'go.mod' '*/go.mod'))))

.PHONY: govulncheck
govulncheck: ## Look for known vulnerabilities in code that is called, in every module (VULNDB, ONLY some of the modules)
	@failed=; for module in $(or $(ONLY),$(VULN_MODULES)); do cd $(CURDIR)/$$module && \
	  case $$module in hack/tools/*) packages=tool ;; *) packages=./... ;; esac && \
	  $(STEP) "looking for vulnerabilities in module $$module" $(GOVULNCHECK) $(VULNDB:%=-db %) $$packages || failed="$$failed $$module"; done; \
	  test -z "$$failed" || { echo "vulnerabilities, or no result, in:$$failed" >&2; exit 1; }

.PHONY: render
render: ## Render every kustomization under config/
	@failed=; for file in $$(find config -name kustomization.yaml -exec grep -L '^kind: Component' {} + | sort); do \
	  $(STEP) "rendering $$(dirname $$file)" $(KUSTOMIZE) build -o /dev/null $$(dirname $$file) || failed=1; done; test -z "$$failed"

.PHONY: workflows
workflows: ## Check the workflows of GitHub Actions
	@$(STEP) "checking the workflows" $(ACTIONLINT) -shellcheck= -pyflakes= .github/workflows/*.yaml

.PHONY: house
house: ## Check what the linters cannot: headers, sizes, links, paths
	@$(STEP) "checking the house rules" go run ./hack/verify

.PHONY: verify
verify: ## Regenerate, check everything, demand a clean tree
	@$(MAKE) generate manifests chart
	@$(MAKE) house tidy-check render workflows lint
	@hack/clean-tree

##@ Test

.PHONY: test
test: kube build helm-tool ## Run the unit tests (under the race detector where goroutines are started), the simulation, the suites on two control planes, the simulated nodes
	@$(GOTEST) all

.PHONY: test-extended
test-extended: kube build ## Run what make test leaves out: a release built twice, cert-manager from its module, every shape of whereabouts' pools, the quickstart
	@$(GOTEST) extended

# CHROMIUM is a browser that knows --headless and --dump-dom. make demo writes one more page, which is looked at where it exists.
CHROMIUM ?= chromium
PAGES     = hack/pages/testdata/history.html hack/dev/internal/demo/report/testdata/report.html $(wildcard bin/demo/report.html)

.PHONY: pages-check
pages-check: ## Look at the HTML pages in a headless browser (CHROMIUM), bin/pages: no error, readable at 400 and 1,600 pixels, light and dark
	@$(STEP) "looking at the HTML pages" go run ./hack/pages -browser $(CHROMIUM) -screenshots bin/pages $(PAGES)

.PHONY: unit
unit: ## Run the unit tests
	@$(GOTEST) unit

.PHONY: model
model: ## Explore the model of the release handshake, and write bin/model/report.json
	@go run ./test/model -report bin/model/report.json

# FUZZTIME is a number of inputs for each, or a Go duration; 0 fuzzes nothing. What is found lands in testdata/fuzz beside the test, and is a case of it from then on.
FUZZTIME ?= 10000x

.PHONY: fuzz
fuzz: ## Fuzz every decoder of foreign bytes, each with FUZZTIME inputs
	@failed=; for file in $$(git grep -l '^func Fuzz' -- '*_test.go' ':!hack'); do \
	  for name in $$(sed -n 's/^func \(Fuzz[A-Za-z]*\).*/\1/p' $$file); do \
	    $(STEP) "fuzzing $$name in $$(dirname $$file)" go test ./$$(dirname $$file) -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) || failed=1; done; done; test -z "$$failed"

# SEED is the first seed, a new one by default; BUDGET is a Go duration. ONLY and KEEP, as a violation prints them, play one history again, TIMES times,
# from the schedule that was recorded beside the report. The first TWICE histories are played twice, and those that differ counted: none should.
BUDGET ?= 3m

.PHONY: explore
explore: ## Play histories of the whole product in virtual time (SEED, BUDGET, TWICE), bin/robustness/report.json, then fuzz (FUZZTIME)
	@go -C hack/dev run ./test/sim/explore -report $(CURDIR)/bin/robustness/report.json -budget $(BUDGET) \
	  $(SEED:%=-seed %) $(ONLY:%=-only %) $(KEEP:%=-keep %) $(TIMES:%=-times %) $(TWICE:%=-twice %)
	@$(if $(or $(ONLY),$(filter 0,$(FUZZTIME))),,$(MAKE) fuzz)

.PHONY: mutants
mutants: kube ## Break the product one rule at a time: tests have to notice each, bin/mutants/report.json
	@go run ./hack/mutants -assets $(KUBE_BIN)

# SUITES are names of folders below test/integration, all of them by default.
.PHONY: integration
integration: kube build helm-tool ## Run the suites on two control planes (SUITES, some of them)
	@$(GOTEST) suites $(SUITES)

# TIER is one of these, all of them by default: suites: the suites on the API server of each Kubernetes; containerd: the agent on each containerd;
# whereabouts: every shape of a network with each version of it; certmanager: what its controllers issue, with each version of it; core: the end-to-end
# suite's core on real nodes, a cluster for each Kubernetes (root, Linux, and no cluster of cluster-up beside it, as for those that follow);
# core-containerd: the same for each containerd; core-whereabouts: for each whereabouts before 0.9; k3s: all of that suite under the name of k3s.
# ONLY are some of the tier's minor versions, with commas between them.
.PHONY: matrix
matrix: ## Try every supported version of Kubernetes, containerd, whereabouts and cert-manager (TIER, one kind of it; ONLY, with TIER, some versions), and write docs/compatibility.md
	@go run ./hack/matrix $(ONLY:%=-only %) $(TIER:%=-tier %)

# The end-to-end suite installs this tree's manager and agent, so it needs their images. With KUBECONFIG it runs on that cluster, where
# it cannot break nodes, where the images of bin/images have to be loaded already, and with the kubectl of the machine;
# without, on that of cluster-up, which has to run.
# EVIDENCE is the installation's: Agent, or Kubelet for one without agents.
E2E_LABELS ?= $(if $(KUBECONFIG),!nodes,core)

.PHONY: e2e
e2e: $(if $(KUBECONFIG),,kube build-cluster) build ## Run the end-to-end suite's core on the cluster of cluster-up, or on KUBECONFIG's
	@$(MAKE) images TAG=dev REGISTRY=
	@test -n "$(KUBECONFIG)" || $(STEP) "importing the images" bin/holdfast-cluster import bin/images/holdfast-manager.tar bin/images/holdfast-agent.tar
	@E2E_LABELS='$(E2E_LABELS)' E2E_EVIDENCE='$(EVIDENCE)' $(GOTEST) machine ./test/e2e/cluster

.PHONY: e2e-full
e2e-full: ## Run all of the end-to-end suite
	@$(MAKE) e2e E2E_LABELS=

.PHONY: test-node
test-node: kube containerd ## Run the agent on a real containerd (CONTAINERD; Linux, root)
	@$(CONTAINERD_BIN:%=PATH="$(CURDIR)/%:$$PATH") $(GOTEST) machine ./test/node/...

##@ See it run

# EVIDENCE is the evidence that demo and dev-up configure: Agent (default), or Kubelet for nodes without agents.

.PHONY: demo
demo: kube build build-dev ## Show the failures without Holdfast, and with it (EVIDENCE)
	@$(STEP) "running the demo" bin/holdfast-dev demo $(EVIDENCE:%=--evidence=%)

.PHONY: dev-up
dev-up: kube build build-dev ## Start a control plane, two simulated nodes, the manager and the agents (EVIDENCE)
	@$(STEP) "starting the development cluster" bin/holdfast-dev up $(EVIDENCE:%=--evidence=%)

.PHONY: dev-down
dev-down: build-dev ## Stop exactly what dev-up started
	@$(STEP) "stopping the development cluster" bin/holdfast-dev down

##@ Measure

# ONLY are rows, with commas between them, or missing for those without a file in bin/bench; docs/performance.md keeps every row that is not measured
# now. QUICK=1 makes one small repeat of each row, in minutes, and writes below bin/bench/quick. REPEATS=40 makes more
# repeats, for a row whose interval contains its target. BASE is a commit: its manager is measured by the
# same command, for a column of its own. PROFILE=1 profiles the manager and the API server after each row, under its load.
.PHONY: bench
bench: kube build build-dev ## Measure what Holdfast costs: docs/performance.md, bin/bench/*.json (ONLY, QUICK, REPEATS, BASE, PROFILE)
	@$(STEP) "measuring" bin/holdfast-dev bench $(ONLY:%=--only=%) $(if $(QUICK),--quick) $(REPEATS:%=--repeats=%) $(if $(PROFILE),--profile) $(BASE:%=--base=%)
