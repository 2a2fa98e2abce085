# `make help` lists the most useful targets. Their descriptions begin with two number signs. `make help-all` also lists
# the targets with a description that begins with one number sign. CONTRIBUTING.md describes every target that a
# contributor needs.
#
# Go decides which programs to rebuild, so almost every target is phony.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

SCENARIO ?= dgx-h100
DCGM     ?= false
ADDRESS  ?= 127.0.0.1:9840
FUZZTIME ?= 1s
RACEFLAGS ?= -short
KILLS    ?= 200
RUNS     ?= 10
LOOPS    ?= 4
HOURS    ?= 24
SEEDS    ?= 500
NODES    ?= 5000
PODS     ?= 50000
STEADY   ?= 5m
ARCHITECTURES ?= amd64 arm64

# go-nvml binds deprecated driver functions. This flag disables only the compiler's warnings about these functions.
CGO_CFLAGS := $(filter-out -Wno-deprecated-declarations,$(shell go env CGO_CFLAGS 2>/dev/null)) -Wno-deprecated-declarations
export CGO_CFLAGS

# All programs and tests are linked without debug information, so the compiler does not write it. This saves a seventh of
# the compiler's processor time. For a debugger, build a program with "go build". The servers of the tests are built with
# the user's own flags.
WITHOUT_DEBUG := -gcflags=all=-dwarf=false
OWN_GOFLAGS := $(filter-out $(WITHOUT_DEBUG),$(shell go env GOFLAGS 2>/dev/null))
export GOFLAGS := $(OWN_GOFLAGS) $(WITHOUT_DEBUG)
BUILD_SERVERS := GOFLAGS="$(OWN_GOFLAGS)" tools/servers

# The driver's library is opened at run time, so its functions must be bound lazily. The compilers of some distributions
# bind all functions at the start by default. A binary from such a compiler does not start without a driver.
LAZY := -extldflags=-Wl,-z,lazy

# The exporter is linked with tools/floor, so that it runs with an older C library. It uses Go's own resolver, because
# the C library's resolver needs newer symbols.

# Tests are linked without symbols and debug information, which take more than half of the linker's time. The packages
# with tests are compiled without paths, so that a clone in another folder finds them in the build cache.
TESTS := -trimpath -ldflags "-s -w $(LAZY)"

# The flags below set the version of the programs. Go's own stamping fails if the clone belongs to another user.
BUILD := go build -trimpath -buildvcs=false

# Packages are built before the tests run, so that the compiler does not slow a test down.
LIBRARIES = $$(go list -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' ./...)

# The packages with the longest tests start first, so that no package runs alone at the end.
LONGEST := ./internal/source/nvml ./internal/simnode ./internal/app ./internal/archive

# The package of SQLite is translated from C, and would take most of the race detector's time. So this package is
# compiled without the detector.
RACE := -race -gcflags=modernc.org/...=-race=false

VERSION_PACKAGE := github.com/prometheus/common/version
VERSION  ?= $(or $(shell git describe --tags --always --dirty 2>/dev/null),dev)
REVISION ?= $(or $(shell git rev-parse HEAD 2>/dev/null),unknown)
BRANCH   ?= $(or $(shell git symbolic-ref --short -q HEAD 2>/dev/null),detached)
STAMP = -X $(VERSION_PACKAGE).Version=$(VERSION) -X $(VERSION_PACKAGE).Revision=$(REVISION) -X $(VERSION_PACKAGE).Branch=$(BRANCH)

# Each tool has its own module. Go builds a tool once and keeps it in the build cache.
GOLANGCI_LINT := go tool -modfile=tools/golangci-lint/go.mod golangci-lint
# gotestsum prints the reasons for skipped tests.
GOTESTSUM     := go tool -modfile=tools/gotestsum/go.mod gotestsum --format=pkgname --format-hide-empty-pkg --format-icons=text --
KUSTOMIZE     := go tool -modfile="$(CURDIR)/tools/kustomize/go.mod" kustomize
GOVULNCHECK   := go tool -modfile=tools/govulncheck/go.mod govulncheck
ACTIONLINT    := go tool -modfile=tools/actionlint/go.mod actionlint

# The tests use real servers, which are built once.
SERVERS := $(BUILD_SERVERS) apiserver etcd=go.etcd.io/etcd/server/v3 \
	k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kube-scheduler
# This is the oldest Kubernetes version that the documentation supports.
SERVERS_OLDEST := $(BUILD_SERVERS) apiserver-oldest \
	k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kube-scheduler
STATE_METRICS := $(BUILD_SERVERS) kube-state-metrics kube-state-metrics=k8s.io/kube-state-metrics/v2
# Most of the code of Prometheus is service discovery for clouds. The build excludes this part.
PROMETHEUS := GOFLAGS="$(OWN_GOFLAGS) -tags=remove_all_sd,netgo" tools/servers prometheus \
	github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool
PROMETHEUS_OLDEST := $(BUILD_SERVERS) prometheus-oldest github.com/prometheus/prometheus/cmd/promtool github.com/prometheus/prometheus/cmd/prometheus
# Without the tag slicelabels, Thanos Receive panics at the first write.
THANOS := GOFLAGS="$(OWN_GOFLAGS) -tags=netgo,slicelabels" tools/servers thanos github.com/thanos-io/thanos/cmd/thanos
# This S3 gateway stores objects in a folder. It supports signatures and conditional writes.
S3 := $(BUILD_SERVERS) versitygw github.com/versity/versitygw/cmd/versitygw
# DuckDB is an npm package, installed once.
DUCKDB := cd tools/duckdb && { [[ node_modules/.package-lock.json -nt package-lock.json ]] || npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2; } && pwd
RULERS := $(BUILD_SERVERS) rulers github.com/VictoriaMetrics/VictoriaMetrics/app/vmalert github.com/prometheus/alertmanager/cmd/alertmanager
VICTORIA := $(BUILD_SERVERS) victoriametrics $(addprefix github.com/VictoriaMetrics/VictoriaMetrics/app/,victoria-metrics vmagent)
HISTORY := $(BUILD_SERVERS) history history=. backfill=./backfill
KUBECTL := $(BUILD_SERVERS) kubectl kubectl=.
KUBELET := $(BUILD_SERVERS) kubelet k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kube-proxy ./podsapi
COREDNS := $(BUILD_SERVERS) coredns coredns=.
CRANE := $(BUILD_SERVERS) crane github.com/google/go-containerregistry/cmd/crane
HELM := $(BUILD_SERVERS) helm helm.sh/helm/v4/cmd/helm
# Helm 3 is tested because it gets security fixes until February 2027.
HELM3 := $(BUILD_SERVERS) helm3 helm.sh/helm/v3/cmd/helm
KYVERNO := $(BUILD_SERVERS) kyverno kyverno=github.com/kyverno/kyverno/cmd/cli/kubectl-kyverno
OAUTH2_PROXY := $(BUILD_SERVERS) oauth2-proxy oauth2-proxy=github.com/oauth2-proxy/oauth2-proxy/v7
NFPM := $(BUILD_SERVERS) nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
SBOM := $(BUILD_SERVERS) sbom github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

# Tests read the folders of the servers from these environment variables.
IN_SERVERS    = GPULEDGER_E2E_SERVERS=$$($(SERVERS))
IN_KUBECTL    = GPULEDGER_E2E_KUBECTL=$$($(KUBECTL))
IN_HELM       = GPULEDGER_E2E_HELM=$$($(HELM))
IN_KUBELET    = GPULEDGER_E2E_KUBELET=$$($(KUBELET))
IN_COREDNS    = GPULEDGER_E2E_COREDNS=$$($(COREDNS))
IN_CRANE      = GPULEDGER_E2E_CRANE=$$($(CRANE))
IN_STATE      = GPULEDGER_E2E_STATE_METRICS=$$($(STATE_METRICS))
IN_PROMETHEUS = GPULEDGER_E2E_PROMETHEUS=$$($(PROMETHEUS))
IN_THANOS     = GPULEDGER_E2E_THANOS=$$($(THANOS))
IN_RULERS     = GPULEDGER_E2E_RULERS=$$($(RULERS))
IN_S3         = GPULEDGER_E2E_S3=$$($(S3))
IN_DUCKDB     = GPULEDGER_E2E_DUCKDB=$$($(DUCKDB))
IN_OLDEST     = GPULEDGER_E2E_PROMETHEUS_OLDEST=$$($(PROMETHEUS_OLDEST))
IN_VICTORIA   = GPULEDGER_E2E_VICTORIA=$$($(VICTORIA))
IN_HISTORY    = GPULEDGER_E2E_HISTORY=$$($(HISTORY))
IN_BIN        = GPULEDGER_E2E_BIN="$(CURDIR)/bin"
IN_PREVIOUS   = GPULEDGER_E2E_PREVIOUS="$$(GOFLAGS='$(OWN_GOFLAGS)' tools/previous)"
E2EARGS       = -tags e2e -vet=off -trimpath -ldflags=-w -timeout 20m $(E2EFLAGS)
E2E           = $(IN_BIN) go test $(E2EARGS) -count=1
E2ESUM        = $(IN_BIN) $(GOTESTSUM) $(E2EARGS)

# Go reuses the result of a test as long as the test's packages, the test's flags, and the files that the test itself
# reads are the same. To include the other inputs, the flags contain a pattern with their hash. The pattern matches no
# test. The hash does not include Go files and the files beside them, because these files are compiled into the test, or
# into a program that the test reads (program.Built). It does not include Markdown, because no program reads Markdown.
UNKEPT  = -count=1
INPUTS := $$(tools/file-times && tools/inputs '*.go' '*.md' internal collector podmapper)

# The temporary files of these targets are in memory if there is enough memory. The temporary files of e2e are on disk,
# because Prometheus reserves space in its files, and this space would take memory.
IN_MEMORY := test test-realtime check rendered race real fuzz bench-blindness
$(IN_MEMORY): export TMPDIR := $(if $(wildcard tools/tempdir),$(shell tools/tempdir))

# For these targets, the compiler and the tests collect garbage less often. This saves a fifth of the compiler's
# processor time. The largest packages need up to 200 MiB more memory.
test race: export GOGC := 300

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  make run SCENARIO=gb200  another simulated node"
	@echo "  make run DCGM=true       with a DCGM host engine and its fields"
	@echo "  make check FUZZTIME=1m   fuzz for longer"
	@echo
	@echo "make help-all lists all targets, CONTRIBUTING.md describes them."

.PHONY: help-all
help-all: # list all targets
	@awk -F ':.* ##? ' '/^[a-z0-9-]+:.* ##? / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: exporter reconciler archive simnode ## build the programs, the simulated node and its fake driver into bin/

.PHONY: needs
needs:
	@tools/needs


.PHONY: exporter
exporter: needs
	@echo "build: bin/gpuledger ($(VERSION))$(if $(wildcard bin/gpuledger),,; the first build takes a few minutes)"
	@floor=$$(tools/floor "bin/floor/$$(go env GOARCH)"); \
		$(BUILD) -tags netgo -ldflags "-s -w '$(LAZY) $$floor' $(STAMP)" -o bin/ ./cmd/gpuledger

.PHONY: reconciler
reconciler:
	@echo "build: bin/gpuledger-reconciler"
	@CGO_ENABLED=0 $(BUILD) -ldflags "-s -w $(STAMP)" -o bin/ ./cmd/gpuledger-reconciler

.PHONY: archive
archive:
	@echo "build: bin/gpuledger-archive"
	@CGO_ENABLED=0 $(BUILD) -ldflags "-s -w $(STAMP)" -o bin/ ./cmd/gpuledger-archive
	@ln -sf gpuledger-archive bin/kubectl-gpuledger
	@ln -sf gpuledger-archive bin/kubectl_complete-gpuledger

.PHONY: simnode
simnode: needs
	@echo "build: bin/simnode, and the fake driver bin/lib/libnvidia-ml.so.1 and libdcgm.so.4"
	@$(BUILD) -ldflags "$(STAMP)" -o bin/ ./cmd/simnode
	@go run -trimpath ./internal/simnode/fakes/compile bin/lib >/dev/null

.PHONY: run
run: exporter simnode ## run the exporter on a simulated GPU node until Ctrl-C
	@bin/simnode --scenario=$(SCENARIO) --dcgm=$(DCGM) --web.listen-address=$(ADDRESS)

.PHONY: demo
demo: exporter archive simnode ## run four simulated nodes with the books of a month, Prometheus and the archive until Ctrl-C; builds Prometheus once (a few minutes)
	@programs=$$($(PROMETHEUS)); history=$$($(HISTORY)); ln -sf "$$programs/promtool" bin/; $(BUILD) -o bin/ ./test/demo; \
		bin/demo --prometheus="$$programs" --history="$$history" $(DEMO)

.PHONY: page-check
page-check: build ## check the page in a browser and save pictures in bin/page; needs npm and Chromium, takes some minutes
	@npm --prefix tools/page-check ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@node tools/page-check/check.mjs bin/page bin/simnode
	@go test -tags e2e -count=1 -run=TestBrowser -v ./internal/archive/web

.PHONY: test
test: needs ## run the deterministic tests; needs no GPU and no cluster
	@echo "test: build the packages (a few minutes the first time), then run their tests (about four minutes)"
	@go build -trimpath $(LIBRARIES)
	go test -vet=off -p "$$(($$(nproc) + 1))" $(TESTS) $(LONGEST) ./test/accuracy/tenants ./test/accuracy ./test/words ./...

.PHONY: test-draws
test-draws: export GPULEDGER_DRAWS := all
test-draws: test # run make test with all draws of random tests; a part of make e2e

.PHONY: test-realtime
test-realtime: needs ## run the tests of whole programs in real time; takes some minutes
	@echo "test-realtime: build the programs, then run their tests, two at a time (about three minutes)"
	@tools/realtime $(TESTS)

.PHONY: test-stress
test-stress: ## run test and test-realtime ten times beside four busy loops, and print a table; takes two hours
	@tools/stress $(RUNS) $(LOOPS)

.PHONY: check
check: tidy lint generated rendered binary unit race real fuzz ## run what CI runs after both tests
	@echo "all checks passed"

.PHONY: e2e
e2e: build chart ## run everything against real servers: Kubernetes, Prometheus, Thanos; takes a quarter of an hour
	@part="$(MAKE) --no-print-directory -o build -o chart -o archive"; \
		$$part e2e-installs & failed=0; $$part e2e-suites check-rules-oldest e2e-polars e2e-pandas trace test-draws || failed=1; wait $$! && exit $$failed

.PHONY: e2e-short
e2e-short: E2EFLAGS += -short
e2e-short: UNKEPT =
# Equal sources produce equal programs, so Go can reuse the test results of an earlier commit.
e2e-short: VERSION = dev
e2e-short: REVISION = unknown
e2e-short: BRANCH = detached
e2e-short: e2e-suites ## run all suites without the longest tests, as CI does for each change
	@echo "e2e-short: omitted the skipped tests above and make e2e-installs; make e2e runs all tests"

# You can run each part of e2e alone.

# The longest suites start first.
SUITES = $(addprefix ./test/e2e/,deploy reconciler rulers archive rules history dashboards queries cluster scale) ./test/alerts ./test/demo ./test/upgrade

# Go keeps one result for the tests of a package that run together. The tests that read documents run separately, so
# that a change of a document repeats only these tests. Their output follows the output of the other tests.
.PHONY: e2e-suites
e2e-suites: build chart
	@inputs=$(INPUTS); documents="^($$(tools/documents $(SUITES)))\$$"; read=$$(mktemp); trap 'rm -f "$$read"' EXIT; failed=0; \
		suites() { $(E2ESUM) $(UNKEPT) "$$@" $(SUITES); }; \
		both() { \
			suites -p 1 -skip='$(INSTALLS)'"|^$$inputs$$" -run="$$documents" >"$$read" 2>&1 & \
			suites -p 3 -skip='$(INSTALLS)'"|^$$inputs$$|$$documents" || failed=1; \
			wait $$! || failed=1; \
		}; \
		$(IN_SERVERS) $(IN_KUBECTL) $(IN_HELM) $(IN_STATE) $(IN_PROMETHEUS) $(IN_OLDEST) $(IN_THANOS) $(IN_VICTORIA) $(IN_RULERS) $(IN_S3) $(IN_DUCKDB) $(IN_HISTORY) $(IN_PREVIOUS) both; \
		cat "$$read"; exit $$failed

# The tests that install and remove everything run in a separate cluster, because they wait dozens
# of times until namespaces are deleted.
INSTALLS = ^Test(Uninstall|LifeCycle|Helm|HelmReadme|HelmNodes|HelmRefusals|Readme|Flux|ArgoCD)$$

.PHONY: e2e-installs
e2e-installs: build chart
	@$(IN_SERVERS) $(IN_KUBECTL) $(IN_HELM) $(E2ESUM) -count=1 -run='$(INSTALLS)' ./test/e2e/deploy

.PHONY: e2e-oldest
e2e-oldest: build # run the webhook and the reconciler on the oldest supported Kubernetes, which has no policy that changes pods
	@export GPULEDGER_E2E_SERVERS=$$($(SERVERS_OLDEST)) $(IN_KUBECTL); ln -sf "$$($(SERVERS))/etcd" "$$GPULEDGER_E2E_SERVERS"; \
		$(E2ESUM) -count=1 -run='^Test(Upstream|WebhookDown|WebhookRights|Standalone|GPUNodes|RuntimeClass)$$' ./test/e2e/deploy && \
		$(E2ESUM) -count=1 -short ./test/e2e/reconciler

.PHONY: check-rules
check-rules: archive # check the rules and alerts, and run the queries about boards on simulated histories
	@$(IN_PROMETHEUS) $(E2E) ./test/alerts ./test/e2e/rules

.PHONY: check-rules-oldest
check-rules-oldest: # run the rules and their tests with the oldest supported Prometheus
	@GPULEDGER_E2E_PROMETHEUS=$$($(PROMETHEUS_OLDEST)) $(E2E) -run='^Test(Rules|RandomHistories)$$' ./test/e2e/rules

.PHONY: e2e-rulers
e2e-rulers:
	@$(IN_PROMETHEUS) $(IN_THANOS) $(IN_RULERS) $(E2E) ./test/e2e/rulers

.PHONY: e2e-queries
e2e-queries: build
	@$(IN_SERVERS) $(IN_STATE) $(IN_PROMETHEUS) $(E2E) ./test/e2e/queries

.PHONY: e2e-history
e2e-history: build
	@$(IN_PROMETHEUS) $(IN_THANOS) $(E2E) ./test/e2e/history

.PHONY: e2e-archive
e2e-archive: build
	@$(IN_SERVERS) $(IN_KUBECTL) $(IN_PROMETHEUS) $(IN_OLDEST) $(IN_THANOS) $(IN_VICTORIA) $(IN_S3) $(IN_DUCKDB) $(IN_PREVIOUS) $(E2E) ./test/e2e/archive

.PHONY: e2e-polars
e2e-polars: archive # run the program for Polars in docs/tables.md; installs its npm package
	@cd tools/polars && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@$(E2E) -v -run='^TestPolars$$' ./test/e2e/archive -polars="$(CURDIR)/tools/polars"

.PHONY: e2e-pandas
e2e-pandas: archive # run the program for pandas in docs/tables.md; needs Debian's python3-pandas
	@$(E2E) -v -run='^TestPandas$$' ./test/e2e/archive -pandas

.PHONY: test-upgrade
test-upgrade: build chart # compare programs, metrics, rules, flags, chart and archives with the version in test/upgrade/previous
	@$(IN_SERVERS) $(IN_KUBECTL) $(IN_HELM) $(IN_PROMETHEUS) $(IN_PREVIOUS) $(E2E) -run='^TestUpgrade' ./test/e2e/archive ./test/upgrade

.PHONY: e2e-outage
e2e-outage: archive # stop the database of a running archive for an hour
	@$(IN_PROMETHEUS) $(E2E) -timeout=2h -v -run='^TestDatabaseOutage$$' ./test/e2e/archive -outage=65m

.PHONY: chaos-archive
chaos-archive: archive # attack the archive for ten minutes: hostile events and stores, a full disk, a killed database; needs root
	@$(E2E) -timeout=1h -v -run='^TestChaos$$' ./test/e2e/archive -chaos=10m

.PHONY: e2e-dashboards
e2e-dashboards: build
	@$(IN_PROMETHEUS) $(IN_HISTORY) $(E2E) ./test/e2e/dashboards ./test/demo

.PHONY: bench-reconciler
bench-reconciler: reconciler # run the reconciler on a cluster of 5,000 nodes; takes half an hour
	@$(IN_SERVERS) $(E2E) -run='^$$' -bench=Reconciler -benchtime=1x -timeout 60m ./test/e2e/reconciler -nodes=$(NODES) -pods=$(PODS) -steady=$(STEADY)

.PHONY: bench-reconciler-scale
bench-reconciler-scale: NODES = 20000
bench-reconciler-scale: PODS = 200000
bench-reconciler-scale: STEADY = 2m
bench-reconciler-scale: reconciler # run the reconciler with a fake API server of 20,000 nodes; takes half an hour
	@$(E2E) -run='^$$' -bench=Scale -benchtime=1x -timeout 2h ./test/e2e/scale -nodes=$(NODES) -pods=$(PODS) -steady=$(STEADY) $(BENCHFLAGS)

.PHONY: bench-queries
bench-queries: archive # time the history queries and the commands on the data of 8,000 GPUs over 90 days, on two processors
	@programs=$$($(PROMETHEUS)); history=$$($(HISTORY)); \
		GOMAXPROCS=2 go run ./test/speed --prometheus="$$programs" --history="$$history/history" --archive=bin/gpuledger-archive $(BENCHFLAGS)

.PHONY: bench-archive
bench-archive: archive # file three days of data from 1,000 GPUs in each sink, and extrapolate; takes some minutes
	@$(IN_PROMETHEUS) $(IN_HISTORY) $(E2E) -v -run='^TestCost$$' ./test/e2e/archive -gpus=1000 $(BENCHFLAGS)

.PHONY: bench-tables
bench-tables: archive # time the documented SQL on 10 million charges in PostgreSQL; takes a quarter of an hour and 12 GB
	@$(E2E) -timeout=1h -v -run='^TestTables$$' ./test/e2e/archive -charges=10000 $(BENCHFLAGS)

.PHONY: bench-web
bench-web: SINKS = SQLite,CSV,PostgreSQL
bench-web: archive # print the memory and time of each page for a month of data from 8,000 GPUs in each of SINKS; takes an hour and 10 GB
	@$(E2E) -timeout=3h -v -run='^TestPagesMemory$$' ./test/e2e/archive -pages.gpus=8000 -pages.sinks=$(SINKS) $(BENCHFLAGS)

.PHONY: bench-year
bench-year: archive # file a year of data from 1,000 GPUs, which a simulated store returns; takes an hour
	@$(E2E) -timeout=4h -v -run='^TestYear$$' ./test/e2e/archive -year.gpus=1000 -year.hours=8760 $(BENCHFLAGS)

.PHONY: e2e-kubelet
e2e-kubelet: ## run the exporter beside a real kubelet, and install a release in a cluster; needs root, installs containerd and runc
	@test/e2e/kubelet/run $(MAKE) --no-print-directory e2e-kubelet-tests

.PHONY: e2e-kubelet-tests
e2e-kubelet-tests:
	@$(MAKE) --no-print-directory release VERSION=v0.1.0 ARCHITECTURES=$$(go env GOARCH)
	@$(IN_SERVERS) $(IN_KUBECTL) $(IN_HELM) $(IN_KUBELET) $(IN_COREDNS) $(IN_CRANE) GPULEDGER_E2E_RELEASE="$(CURDIR)/bin/release" \
		$(E2E) -v ./test/e2e/kubelet

.PHONY: e2e-units
e2e-units: exporter # map a job of a real Slurm and a container of a real Podman, on this machine and in a virtual machine with their newest versions; needs root and Debian's slurmd, slurmctld, munge, slurm-client, podman, runc
	CGO_ENABLED=0 $(IN_BIN) go test -tags e2e -ldflags=-w -count=1 -v ./test/e2e/units
	@test/e2e/units/vm

.PHONY: soak
soak: ## run the exporter for an accelerated day, and kill it 200 times; takes a quarter of an hour
	go test -tags e2e,realtime -count=1 -timeout=24h -ldflags "$(LAZY)" -run='^TestSoak$$' -v ./cmd/gpuledger -hours=$(HOURS)
	go test -tags realtime -count=1 -timeout=1h -ldflags "$(LAZY)" -run='^TestKilled$$' -v ./cmd/gpuledger -kills=$(KILLS)

.PHONY: image-test
image-test: # build the images and run them; needs root, installs buildah, runc, mmdebstrap and QEMU
	@test/e2e/image/run

.PHONY: packages
packages: needs # build the archives, debs and rpms into bin/packages; needs the C compilers of amd64 and arm64
	@rm -rf bin/packages && mkdir -p bin/packages
	@nfpm=$$($(NFPM)); tools/packages "$(VERSION)" bin/packages "$$nfpm/nfpm" $(ARCHITECTURES)

.PHONY: packages-test
packages-test: # install, upgrade and remove the packages in clean root trees; needs root, installs mmdebstrap, rpm, QEMU and a compiler
	@nfpm=$$($(NFPM)); test/e2e/packages/run "$$nfpm/nfpm"

.PHONY: release
release: packages chart ## build the files of a release into bin/release
	@helm=$$($(HELM)); sbom=$$($(SBOM)); tools/release "$(VERSION)" "$$helm/helm" "$$sbom/cyclonedx-gomod"

.PHONY: release-check
release-check: # check the files in bin/release as a user would, and print their sizes
	@helm=$$($(HELM)); tools/release-check bin/release "$$helm/helm"

.PHONY: bench
bench: exporter simnode ## measure the memory and the cost of the page and the tick; takes minutes
	@gcc -O2 -Wall -Wextra -Wno-deprecated-declarations -I"$$(go list -m -f '{{.Dir}}' github.com/NVIDIA/go-nvml)/pkg/nvml" -o bin/minimal test/cost/minimal.c
	@go run ./test/cost
	@echo "The page of DCGM's fields:"
	@go test -run='^$$' -bench=Fields -benchmem ./collector | grep ^Benchmark

.PHONY: benchmarks
benchmarks: # run the Go benchmarks
	go test -tags realtime -ldflags "$(LAZY)" -run='^$$' -bench=. -benchmem $(or $(sort $(dir $(shell grep -rl --include='*_test.go' --exclude-dir=e2e '^func Benchmark' .))),./...)

.PHONY: trace
trace: # apply the patches of docs/design.md to a copy, build and test it, and count the files that each changes
	@go test $(TESTS) -count=1 -v ./test/trace -build

.PHONY: bench-accuracy
bench-accuracy: # compare the books with the true energy of simulated GPUs
	@go run -ldflags "$(LAZY)" ./test/accuracy/report

# Each schedule takes four minutes and mostly waits, so sixty schedules need about one processor.
.PHONY: bench-blindness
bench-blindness: # compare the exporter with a model during random outages; takes an hour
	go test -tags realtime -count=1 -timeout=6h $(TESTS) -run='^TestSchedules$$' -v ./test/blindness \
		-schedules=$(SEEDS) -together=60 -length=4m $(BENCHFLAGS)

.PHONY: bench-hardware
bench-hardware: exporter # compare the assumptions about GPUs with a real GPU (docs/hardware.md); without a GPU, build bin/hardware.tar.gz for another machine
	@mkdir -p bin/hardware && cp bin/gpuledger bin/hardware
	@floor=$$(tools/floor "bin/floor/$$(go env GOARCH)"); for part in hardware=. load=./load; do \
		$(BUILD) -tags netgo -ldflags "-s -w '$(LAZY) -no-pie $$floor' $(STAMP)" -o "bin/hardware/$${part%=*}" "./test/hardware/$${part#*=}"; done
	@tar -C bin -czf bin/hardware.tar.gz hardware
	@if [[ -e /dev/nvidiactl ]]; then bin/hardware/hardware --out=bin/hardware-results.md; else \
		echo "bench-hardware: this machine has no NVIDIA driver; unpack bin/hardware.tar.gz on a machine with a driver and run hardware/hardware"; fi

.PHONY: vulnerabilities
vulnerabilities: needs # report known vulnerabilities in called code; needs vuln.go.dev
	$(GOVULNCHECK) ./...

.PHONY: generate
generate: ## regenerate the generated files
	go generate ./...

.PHONY: manifests
manifests: # render the overlays into bin/manifests, as for a release
	@tools/manifests $(KUSTOMIZE)

.PHONY: chart
chart: manifests # assemble the Helm chart in bin/chart/gpuledger, with the images of IMAGE_REGISTRY and IMAGE_TAG
	@IMAGE_REGISTRY="$(IMAGE_REGISTRY)" IMAGE_TAG="$(IMAGE_TAG)" tools/chart $(KUSTOMIZE)

.PHONY: helm
helm: # build helm for the tests, and print its path; builds it once (some minutes)
	@echo "$$($(HELM))/helm"

.PHONY: chart-helm3
chart-helm3: chart # compare the chart's objects with the overlays in Helm 3; builds it once (some minutes)
	@GPULEDGER_E2E_HELM=$$($(HELM3)) go test -tags e2e -vet=off -trimpath -ldflags=-w -count=1 -run='^TestChart' ./internal/deploy

.PHONY: kyverno-check
kyverno-check: # run the example for Kyverno with the command line of Kyverno 1.18; builds it once (some minutes)
	@GPULEDGER_E2E_KYVERNO=$$($(KYVERNO)) go test -tags e2e,kyverno -vet=off -trimpath -ldflags=-w -count=1 -v -run='^TestKyverno$$' ./internal/deploy

.PHONY: oauth-check
oauth-check: # read the archive's pages through oauth2-proxy 7.8; builds it once (some minutes)
	@GPULEDGER_E2E_OAUTH2_PROXY=$$($(OAUTH2_PROXY)) go test -tags oauth -vet=off -trimpath -ldflags '-w $(LAZY)' -count=1 -v -run='^TestOAuth2Proxy' ./internal/archive/web

.PHONY: format
format: ## format the Go files
	$(GOLANGCI_LINT) fmt

# You can run each step of check alone.

.PHONY: tidy
tidy:
	@echo "tidy: go.mod and go.sum list the used modules and no others"
	@go mod tidy -diff

.PHONY: lint
lint:
	@echo "lint: formatting (gofumpt), golangci-lint with all analyzers of go vet, actionlint"
	@$(GOLANGCI_LINT) fmt --diff
	@linter=$$(go tool -modfile=tools/golangci-lint/go.mod -n golangci-lint); GOFLAGS="$$(go env GOFLAGS) -trimpath" "$$linter" run ./...
	@$(ACTIONLINT)

.PHONY: generated
generated:
	@echo "generated: go generate changes no file (without the table of accuracy, which takes minutes)"
	@tools/unchanged go generate -skip=report ./...
	@tools/file-times

.PHONY: rendered
rendered: chart
	@echo "rendered: the overlays use valid flags and keep their guarantees; the chart has the same objects"
	@inputs=$(INPUTS); $(IN_HELM) go test -tags e2e -vet=off -trimpath -ldflags=-w -skip="^$$inputs$$" ./internal/deploy

.PHONY: binary
binary:
	@echo "binary: build the programs from the build context of the images"
	@rm -rf bin/context && mkdir -p bin/context && tools/image/context bin/context
	@$(MAKE) --no-print-directory -C bin/context exporter reconciler archive >/dev/null
	@echo "binary: gpuledger is bound lazily, needs only libc (glibc 2.28 or newer) and contains no path of this machine"
	@cd bin/context && tools/check-binary bin/gpuledger
	@echo "binary: gpuledger-reconciler and gpuledger-archive need no library"
	@! readelf --dynamic --wide bin/context/bin/gpuledger-reconciler bin/context/bin/gpuledger-archive | grep NEEDED
	@rm -r bin/context

.PHONY: unit
unit:
	@echo "unit: systemd accepts the service of docs/machine.md and rates its exposure at most 2.5"
	@tools/check-unit manifests/examples/systemd/gpuledger.service

.PHONY: race
race:
	@echo "race: the short tests of concurrent packages under the race detector"
	@go build $(RACE) -trimpath $(LIBRARIES)
	@$(GOTESTSUM) $(RACE) $(RACEFLAGS) -vet=off $(TESTS) $(LONGEST) $$(tools/concurrent)

.PHONY: real
real:
	@echo "real: processes in real cgroups, and their memory limits; a skipped test prints the reason"
	@go test -count=1 $(TESTS) -run='^Test(RealCgroups|LimitMemory)$$' -v ./podmapper ./internal/unit ./internal/cli | grep -E '^ *(--- |ok|FAIL|[a-z_]*group[a-z_]*\.go)'

.PHONY: fuzz
fuzz:
	@echo "fuzz: every fuzz target for $(FUZZTIME)"
	@tools/fuzz $(FUZZTIME)
