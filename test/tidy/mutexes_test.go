package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// mutexes are the locks of the product, by package, type and field, with what each guards. State
// that one goroutine owns needs none: another mutex is a decision.
var mutexes = map[string]string{
	"log.store.reopening":                 "Reopen: one at a time",
	"log.store.cutting":                   "cutting tails: before any partition is led",
	"log.store.mu":                        "namespace.json and the clean marker, and whether the store is closed",
	"log.reserve.mu":                      "the reserve of disk space, for all writers of a store",
	"log.partition.lead":                  "Lead: one at a time",
	"log.partition.saving":                "SaveCheckpoint: one at a time",
	"log.partition.copying":               "Copy: the files of a log stay what they are as long as they are copied",
	"log.partition.mu":                    "segments, checkpoints and what recovery found, for readers of any goroutine",
	"log.partition.listing":               "the manifest, between the writer, which adds a chapter, and the sealer, which takes one away",
	"log.chapterSealer.mu":                "sealing: one chapter of a partition at a time",
	"log.scrubState.mu":                   "scrubbing: one file of a partition at a time",
	"log.baseManager.doing":               "bases: one is made, or files are removed before one, at a time",
	"log.blockCache.mu":                   "decompressed blocks, for readers of any goroutine",
	"log.writer.mu":                       "the frame being filled and those that wait, between the loop and the goroutine that syncs",
	"log.writer.io":                       "the file that is written to",
	"log.writer.noting":                   "the progress note",
	"log.fileCache.mu":                    "open segment files",
	"engine/host.admin.mu":                "changes of the catalogue: one at a time",
	"engine/host.partitions.mu":           "how partitions are, for those who ask and those who change it",
	"engine/host.Namespace.fencing":       "operators who fence: one at a time",
	"engine/host.watchers.mu":             "who is told of changes of entities",
	"engine/host.Namespace.Close mu":      "the errors of partitions that are closed at the same time",
	"engine/host.directory.mu":            "the entities, for everybody who looks one up",
	"engine/background.courierMail.mu":    "what loops have told a courier",
	"engine/loop.inboundRequests.mu":      "what couriers have for a loop",
	"engine/loop.mailbox.mu":              "requests on their way to a partition",
	"engine/loop.mailbox.room":            "waiting for room in a full mailbox",
	"engine/loop.Snapshot.mu":             "a state that a loop gives away, and whoever asked may have stopped waiting for",
	"engine/present.sampler.mu":           "counts of the last day, for those who ask, and the goroutine that samples",
	"engine/host.Clock.mu":                "broker time",
	"protocol/access.Failures.mu":         "failed logins by address",
	"protocol/access.keySet.mu":           "fetching an issuer's keys: one at a time",
	"engine/present.Namespace.mu":         "counts of all entities, which many viewers share",
	"tools/offline.ended.mu":              "the state at the end of a log, of which viewers take snapshots",
	"engine/ledger.Memory.mu":             "who is who in logs, for questions that are asked again and again",
	"protocol/ledger.lineAnswer.mu":       "lines of an answer that wait to be sent, between who finds them and who sees that they do not wait for long",
	"protocol/ledger.answers.mu":          "the answers that are being sent, for whoever asks when there are too many",
	"protocol/ledger.patience.mu":         "how long an answer has waited for its reader, and the deadlines that end the wait",
	"protocol/listen.httpConns.mu":        "how many connections net/http has, whose goroutines tell it",
	"protocol/listen.Server.mu":           "listeners, and connections that have not said what they speak",
	"protocol/servicebus.Server.mu":       "the connections",
	"protocol/servicebus.conn.turn":       "the state of a connection, but for what is said of it: whoever has its turn: run, the reader, which need not wake the other goroutine, or an operator who looks",
	"protocol/servicebus.outbox.mu":       "replies on their way to a connection",
	"cmd/broker.certificates.mu":          "the certificate in use",
	"tools/doctor.examination.measure mu": "times of syncs of several files",
	"cmd/ledgerbus.receiveRun.mu":         "the first settlement that failed",
	"tools/client.Client.mu":              "links for tokens and management, made when they are needed",
	"tools/bench.childOutput.mu":          "what a child wrote",
	"tools/bench.coalescer.mu":            "bytes on their way to a socket",
	"tools/bench.coalescer.changed":       "waiting for bytes to write, or for room for them",
	"tools/bench/floor.Server.mu":         "the connections of the floor",
	"tools/bench/floor.keeper.mu":         "what the next sync makes durable",
	"tools/bench/floor.queue.mu":          "messages that wait for receivers, or receivers for messages",
	"tools/bench/floor.inbox.mu":          "notices on their way to a connection of the floor",
	"engine/background.Retention.mu":      "which files are not to be tried again, and what was said, for who cuts history and who drops bodies",
}

// lockSection is where docs/concurrency.md says in which order the mutexes of package log are
// taken, in the first column of a table.
const lockSection = "## Locks of the log"

var lockRow = regexp.MustCompile("(?m)^\\| `(log\\.[^`]+)` \\|")

func TestLockOrder(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(source.Root, "docs/concurrency.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), lockSection+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows, listed []string
	for _, m := range lockRow.FindAllStringSubmatch(section, -1) {
		rows = append(rows, m[1])
	}
	for name := range mutexes {
		if strings.HasPrefix(name, "log.") {
			listed = append(listed, name)
		}
	}
	report(t, difference(listed, rows,
		"a mutex of package log without a place in the order of docs/concurrency.md, "+lockSection+". What is held when it is taken, and what is taken while it is held?",
		"docs/concurrency.md gives a place to a mutex that is not there any more, or two. Take the row away."))
}

// locks are the types that a list of mutexes is about.
var locks = []string{"sync.Mutex", "sync.RWMutex", "sync.Cond", "sync.Locker"}

func TestMutexes(t *testing.T) {
	t.Parallel()
	var found []string
	for _, f := range product(t) {
		names, uncommented := mutexesOf(f)
		found = append(found, names...)
		report(t, uncommented)
	}
	report(t, difference(found, slices.Collect(maps.Keys(mutexes)),
		"a mutex that is not listed. Can one goroutine own what it guards, and others ask it? If not, add it to mutexes in test/tidy/mutexes_test.go, with what it guards. "+sayRaised,
		"no longer there. Delete it from mutexes in test/tidy/mutexes_test.go."))
}

// mutexesOf lists the mutexes of a file, "engine/loop.mailbox.mu" for a field and
// "engine.Namespace.Close mu" for a variable in a function, and says which fields have no comment
// about what they guard.
func mutexesOf(f *source.File) (names, uncommented []string) {
	for name, d := range f.Declarations() {
		owner := f.Package()
		if name != "" {
			owner += "." + name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					fields, bare := mutexFields(s)
					for _, name := range fields {
						names = append(names, owner+"."+n.Name.Name+"."+name)
					}
					for _, name := range bare {
						uncommented = append(uncommented, fmt.Sprintf("%s: %s.%s has no comment that says what it guards: write // guards what follows, above the fields it guards, "+
							"or // guarded by %[3]s at each of them", f.Path, n.Name.Name, name))
					}
				}
			case *ast.ValueSpec:
				if slices.Contains(locks, source.TypeName(n.Type)) {
					for _, name := range n.Names {
						names = append(names, owner+" "+name.Name)
					}
				}
			}
			return true
		})
	}
	return names, uncommented
}

// mutexFields is the mutexes among the fields of a struct, and which of them no comment speaks of.
func mutexFields(s *ast.StructType) (names, bare []string) {
	var comments strings.Builder
	for _, field := range s.Fields.List {
		comments.WriteString(field.Comment.Text() + field.Doc.Text())
	}
	for _, field := range s.Fields.List {
		of := source.TypeName(field.Type)
		if !slices.Contains(locks, of) {
			continue
		}
		fieldNames := []string{strings.TrimPrefix(of, "sync.")} // embedded
		if len(field.Names) > 0 {
			fieldNames = nil
		}
		for _, name := range field.Names {
			fieldNames = append(fieldNames, name.Name)
		}
		for _, name := range fieldNames {
			names = append(names, name)
			if field.Comment == nil && field.Doc == nil && !strings.Contains(comments.String(), "guarded by "+name) {
				bare = append(bare, name)
			}
		}
	}
	return names, bare
}

func TestMutexesOf(t *testing.T) {
	t.Parallel()
	f := parse(t, "a/b.go", `package a

type inbox struct {
	mu   sync.Mutex // guards what follows
	mail []int
}

type outbox struct {
	mu, io *sync.RWMutex
	mail   []int // guarded by mu
	sync.Mutex
}

func drain() {
	var once sync.Mutex
}
`)
	names, uncommented := mutexesOf(f)
	want := []string{"a.inbox.mu", "a.outbox.mu", "a.outbox.io", "a.outbox.Mutex", "a.drain once"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if len(uncommented) != 2 || !strings.Contains(uncommented[0], "outbox.io ") || !strings.Contains(uncommented[1], "outbox.Mutex ") {
		t.Errorf("without a comment are outbox.io and the embedded one, and not %q", uncommented)
	}
}
