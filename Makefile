# Everything here is one line that can be typed as well. Only Go and make are needed; what needs more is skipped without it.

FUZZ ?= 500000
DURATION ?= 2m
ROUNDS ?= 100
ATTACK ?= 60s
BASE ?= HEAD
SUITES ?=
VULNDB ?= https://vuln.go.dev

.PHONY: build image run test full full-tests full-sdks full-random full-faults test-js test-python test-java sdk fuzz sim mutants torture temporary space large tables compatible attack bench lint vulns portable fmt

build: ## the binary: bin/ledgerbus
	go build -trimpath -o bin/ledgerbus ./cmd/ledgerbus

image: ## static binaries and a container image for amd64 and arm64: dist/
	go run ./internal/image --into dist

run: build ## a broker in ./data with the entities of the example
	bin/ledgerbus serve --data ./data --entities docs/examples/config.json

test: build ## before a commit: unit tests, where goroutines share memory with the race detector, and the scenarios with the Go SDK; ten minutes
	go run ./test/all

test-js test-python test-java: test-%: build ## the JavaScript, Python or Java SDK against bin/ledgerbus
	go run ./test/all --scope full --only $*

full: full-tests full-sdks full-random full-faults ## everything, in four parts of at most two hours each

full-tests: build lint portable image ## unit tests and the Go SDK with the race detector, also on partitioned entities
	go run ./test/all --scope full --only units,go

full-sdks: build ## all scenarios with the other SDKs and clients
	go run ./test/all --scope full --only js,python,java,qpid-jms,qpid-proton

full-random: ## the simulation, questions about the past, planted bugs, fuzz targets
	go run ./test/all --scope full --only sim,answers,mutants,fuzz

full-faults: build ## the real binary killed, on disks that fail, attacked, full, over real minutes
	go run ./test/all --scope full --only outside,torture,attack,temporary,space,large,tables

sdk: build ## the scenarios of test/sdk/scenarios.json with all clients, those of the SDKs on partitioned entities too, and the page of what they show; needs Node 20, Python 3.10, a JDK 17, mvn and a C compiler
	go run ./test/sdk/run --sdk go,js,python,java,qpid-jms,qpid-proton --entities both --table docs/compatibility.md

fuzz: ## every fuzz target, FUZZ executions of each; fewer of the two that run a whole connection or directory
	go run ./test/fuzz --count $(FUZZ)

sim: ## the deterministic simulation, fresh seeds for DURATION
	go test ./test/sim -count 1 -timeout 0 -run TestSim -duration $(DURATION)

mutants: ## planted bugs, each of which a test must find; SUITES, such as ./log, are the packages whose tests look for them
	go run ./test/mutants $(SUITES)

torture: ## the real binary under load, killed ROUNDS times, and again while messages move and transactions go on; one partition fenced ROUNDS times, by hand and, for root, by a file system that fails; both also under a partitioned queue
	go test ./test/torture -count 1 -timeout 0 -run '^(TestTorture|TestMoves|TestFence|TestFencedDevice|TestFencedPartitioned|TestFencedPartitionedDevice|TestMirror)$$' -rounds $(ROUNDS) -v

temporary: ## entities that delete themselves, in real time and over two kills: eight minutes, nearly all of it waiting
	go test ./test/torture -count 1 -timeout 0 -run TestTemporaryEntities -minutes -v

space: ## 2 GiB sent and settled, all of which the disk has back within five minutes; half a minute, and a disk with 8 GiB
	go test ./engine/host -count 1 -timeout 0 -run '^TestSpaceBurst$$' -space-burst -v

large: ## messages of 100 MB through their life, with the memory that the broker had; a minute, 2 GiB of memory and of disk
	go test ./test/torture -count 1 -timeout 0 -run '^TestLargeMessages$$' -megabytes 100 -v

tables: ## DuckDB, which it fetches, reads what log export writes; needs Python 3.10
	python3 -m venv bin/duckdb && bin/duckdb/bin/pip install --quiet --disable-pip-version-check duckdb
	DUCKDB_PYTHON=$(CURDIR)/bin/duckdb/bin/python go test ./test/format -run '^TestDuckDB$$' -count 1 -v

compatible: ## directories that this build and that of the commit BASE write open in the other one, with equal states, or are refused as newer; needs the history
	go test ./test/compatible -count 1 -run TestCompatible -base $(BASE) -v

attack: ## hostile peers at the real binary, each kind for ATTACK, with honest clients beside them; from 30s on with a crowd of 5,000
	go test ./test/attack -count 1 -timeout 0 -run "TestAttack|TestCrowd" -duration $(ATTACK) -v

bench: build ## the load generator, bin/ledgerbench; codec, index, engine, filters and log alone, then the whole broker beside disk and floor
	go build -trimpath -o bin/ledgerbench ./cmd/ledgerbench
	go test -run '^$$' -bench . -benchmem ./protocol/amqp ./protocol/message ./protocol/servicebus ./index ./engine ./engine/background ./engine/host ./engine/loop ./engine/filter ./log
	go test -run '^$$' -bench . -benchtime 1x -timeout 0 ./test/attack # the time of honest clients' calls under attack
	bin/ledgerbench suite

# The tools have a module of their own, test/tools, so that they raise no version of what the binary is built from.
lint: ## vet, staticcheck, formatting, what go.mod lists, generated files, directions of imports, lengths, links
	gofmt -d . # make fmt mends what this finds
	go mod tidy -diff
	go -C test/tools mod tidy -diff
	go vet ./...
	go tool -modfile=test/tools/go.mod staticcheck ./...
	go test ./log/event/internal/gen # fails where go generate ./log/event was forgotten
	go test -count 1 ./test/layering ./test/tidy # not from the cache, which does not know of commits

vulns: ## known vulnerabilities that the code can reach; VULNDB=file:///PATH is a copy of the database where there is no network
	go tool -modfile=test/tools/go.mod govulncheck -db $(VULNDB) ./...

portable: ## it builds on other systems than the tests run on
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/ledgerbus
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/ledgerbench
	GOOS=freebsd GOARCH=amd64 go build -o /dev/null ./cmd/ledgerbus
	GOOS=freebsd GOARCH=amd64 go build -o /dev/null ./cmd/ledgerbench

fmt:
	gofmt -w .
