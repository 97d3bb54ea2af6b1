# SPDX-License-Identifier: Apache-2.0
#
# The Helm chart. Its templates stand for config/, with which test/chart compares them.

HELM := go tool -modfile=$(TOOLS)/helm/go.mod helm

##@ Chart

.PHONY: chart
chart: ## Copy what the chart takes from config/, and write its schema and its reference
	@$(STEP) "copying config/ into the chart" hack/chart/sync
	@$(STEP) "writing the schema and the reference of the chart's values" go test -count=1 ./test/chart -run '^TestSchema$$|^TestReference$$' -update

.PHONY: chart-lint
chart-lint: helm-tool ## Lint the chart
	@$(STEP) "linting the chart" $(HELM) lint --strict --namespace holdfast-system charts/holdfast

.PHONY: chart-test
chart-test: helm-tool ## Compare the chart with config/
	@$(STEP) "testing the chart" go test -count=1 ./test/chart

# Minutes when it is built for the first time; after that it comes out of Go's cache.
.PHONY: helm-tool
helm-tool:
	@$(STEP) "building helm" go tool -n -modfile=$(TOOLS)/helm/go.mod helm > /dev/null
