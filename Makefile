# Everything here is one line that can be typed as well. Only Go and make are needed; what needs more is skipped without it.

FUZZ ?= 500000
DURATION ?= 2m
ROUNDS ?= 100
ATTACK ?= 60s

# The race detector needs a C compiler.
RACE := $(shell command -v $$(go env CC) >/dev/null 2>&1 && echo -race)

.PHONY: build image run test test-js test-python test-java sdk fuzz sim mutants torture temporary attack bench lint portable fmt

build: ## the binary: bin/ledgerbus
	go build -trimpath -o bin/ledgerbus ./cmd/ledgerbus

image: ## static binaries and a container image for amd64 and arm64: dist/
	go run ./internal/image --into dist

run: build ## a broker in ./data with the entities of the example
	bin/ledgerbus serve --data ./data --entities docs/examples/config.json

test: build ## unit tests, the scenarios with the Go SDK, and those with the other SDKs whose runtimes are there; with CI=true they must be
	go test $(RACE) -short -timeout 15m $$(go list ./... | grep -v test/sdk/go)
	go test $(RACE) -short -timeout 15m ./test/sdk/go # by itself: what it times is not what others leave of the machine
	@for sdk in js python java; do if go run ./test/sdk/run --sdk $$sdk --rounds 0; then $(MAKE) --no-print-directory test-$$sdk || exit 1; elif [ "$$CI" = true ]; then exit 1; else echo "$$sdk left out"; fi; done

test-js: build ## the JavaScript SDK against bin/ledgerbus
	cd test/sdk/js && npm ci --no-audit --no-fund && LEDGERBUS=$(CURDIR)/bin/ledgerbus npm test
	go run ./test/sdk/run --sdk js

test-python test-java: test-%: build ## the Python or Java SDK
	go run ./test/sdk/run --sdk $*

sdk: build ## the scenarios of test/sdk/scenarios.json with all four SDKs, and the page of what they show; needs Node 20, Python 3.10, a JDK 17 and mvn
	go run ./test/sdk/run --sdk go,js,python,java --table docs/compatibility.md

# Counts, not times: with a time the fuzzer of Go before 1.27 now and then fails at its own deadline (go.dev/issue/75804).
fuzz: ## every fuzz target, FUZZ executions of each; fewer of the two that run a whole connection or directory
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's|/[^/]*:func | |' | while read -r dir target; do n=$(FUZZ); case $$target in FuzzVerify) n=$$((n / 500));; FuzzConnection) n=$$((n / 10));; esac; echo "$$dir $$target $$n"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime "$${n}x" -fuzzminimizetime 10x "$$dir" || exit 1; done

sim: ## the deterministic simulation, fresh seeds for DURATION
	go test ./test/sim -count 1 -timeout 0 -run TestSim -duration $(DURATION)

mutants: ## planted bugs, each of which a suite must catch
	go test -tags mutants ./test/sim -count 1 -timeout 0 -run TestPlantedBugs -v

torture: ## the real binary under load, killed ROUNDS times
	go test ./test/torture -count 1 -timeout 0 -run TestTorture -rounds $(ROUNDS) -v

temporary: ## entities that delete themselves, in real time and over two kills: eight minutes, nearly all of it waiting
	go test ./test/torture -count 1 -timeout 0 -run TestTemporaryEntities -minutes -v

attack: ## hostile peers at the real binary, each kind for ATTACK, with honest clients beside them
	go test ./test/attack -count 1 -timeout 0 -run TestAttack -duration $(ATTACK) -v

bench: build ## codec, index, engine, filters and log alone, then the whole broker beside disk and floor
	go test -run '^$$' -bench . -benchmem ./protocol/amqp ./protocol/servicebus ./index ./engine ./engine/host ./engine/filter ./log
	go test -run '^$$' -bench . -benchtime 1x -timeout 0 ./test/attack # the time of honest clients' calls under attack
	bin/ledgerbus bench suite

lint: ## vet, staticcheck, formatting, directions of imports
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "not formatted: make fmt"; exit 1; }
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	go test ./test/layering

portable: ## it builds on other systems than the tests run on
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/ledgerbus
	GOOS=freebsd GOARCH=amd64 go build -o /dev/null ./cmd/ledgerbus

fmt:
	gofmt -w .
