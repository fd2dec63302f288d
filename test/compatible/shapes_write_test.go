package compatible

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/test/archive"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

var (
	rewrite = flag.String("write", "", "shape of testdata that is written again, by the build of its commit; it takes the repository's history")
	built   = flag.String("broker", "", "with -write: that build, where it has been made already")
)

// shape is a form that data directories had (the table at the beginning of docs/log-format.md),
// with a directory that the build of a commit wrote.
type shape struct {
	name   string
	commit string // "": today's
	format int
	write  func(t *testing.T, binary, data string) map[string]int
	// what is to be seen in it: kinds of events, whether a file ends in room, and sealed files
	has string
}

// shapes are all there are. A directory that is in testdata was written once, but for the last:
// that is written again whenever what this version writes changes.
var shapes = []shape{
	{"first", "854086d", 1, queuesOnly, "MessageAbandoned MessageDeferred MessageDeadLettered"},
	{"sessions", "5055814", 1, withoutTopics, "SessionStateSet SessionReleased MessageScheduled DuplicateDropped MessagesBatchDeleted"},
	{"topics", "e75b808", 1, everything, "MessagePublished ScheduledPublished RuleUpdated EntityDeleted SliceDropped"},
	{"room", "61673d2", 1, everything, "MessagePublished room"},
	{"payload-4", "4b18ece", 1, everything, "MessagePublished room"},
	{"payload-5", "e16abb6", 1, everything, "MessagePublished room"},
	{"clock", "e16abb6", 1, clockSet, "MessagePublished ClockSet"},
	{"moves", "4e40d82", 2, movesAndTransactions, "TransactionCommitted TransactionAborted NumbersReserved TransferStarted MessageHandedOver TransfersFinished TransferFailed SourceForgotten"},
	{"sealed", "3c8a230", 2, sealedHistory, "MessagePublished room sealed"},
	{"lifetimes", "3513c00b", 2, lifetimes, "MessageEnqueued MessageScheduled MessagePublished MessageHandedOver TransferFailed"},
	{"format-2", "", 2, everything, "MessagePublished room"},
}

// told is what stands beside a directory in testdata.
type told struct {
	Commit string         // whose build wrote it
	Peeked map[string]int // how many messages that build showed in each place, before its last end
	States []string       // hash of each partition's state, by the code that first opened it
}

// begin is one life of a broker: what is done in it, and whether it is stopped in order or killed.
type begin struct {
	does func(*author)
	stop bool
}

// live lives these lives, and peeks before the end of the last.
func live(t *testing.T, binary, data, entities string, lives []begin, flags ...string) (peeked map[string]int) {
	t.Helper()
	a, end := newAuthor(t, binary, data, entities, flags...)
	defer end()
	for i, l := range lives {
		a.start()
		l.does(a)
		if i == len(lives)-1 {
			peeked = a.peek()
		}
		if l.stop {
			a.must(a.process.Stop())
		} else {
			a.must(a.process.Kill())
		}
	}
	return peeked
}

// queuesOnly is what the first version could do.
func queuesOnly(t *testing.T, binary, data string) map[string]int {
	const entities = `{"UserConfig": {"Namespaces": [{"Name": "compatible", "Queues": [{"Name": "orders", "Properties": {"LockDuration": "PT5S"}},
		{"Name": "mortal", "Properties": {"DeadLetteringOnMessageExpiration": true}}]}]}}`
	return live(t, binary, data, entities, []begin{{(*author).sendsFirst, true}, {(*author).settlesFirst, false}, {(*author).sendsFirst, true}, {(*author).holds, false}})
}

func withoutTopics(t *testing.T, binary, data string) map[string]int {
	queues, _, _ := strings.Cut(entities, `, "Topics"`)
	return live(t, binary, data, queues+"}]}}", []begin{{(*author).sends, false}, {(*author).settles, true}, {(*author).sessions, false}, {(*author).releases, true},
		{(*author).leavesOpen, true}})
}

func everything(t *testing.T, binary, data string) map[string]int { return writeAll(t, binary, data) }

// sealedHistory is everything with each chapter sealed as soon as it is closed; the last life takes
// seconds.
func sealedHistory(t *testing.T, binary, data string) map[string]int {
	return writeAll(t, binary, data, "--seal-after", "0s")
}

func writeAll(t *testing.T, binary, data string, flags ...string) map[string]int {
	return live(t, binary, data, entities, []begin{{(*author).sends, false}, {(*author).settles, true}, {(*author).sessions, false}, {(*author).topics, true},
		{(*author).changes, false}, {(*author).leavesOpen, false}}, flags...)
}

// clockSet goes on with a directory that was written more than ten minutes ago, as decisions about
// a clock demand: one is for the log, the other for the clock.
func clockSet(t *testing.T, binary, data string) map[string]int {
	extract(t, "payload-4", data)
	if peeked := live(t, binary, data, "", []begin{{(*author).holds, false}}, "--accept-clock", "log"); len(peeked) == 0 {
		t.Fatal("nothing to be seen")
	}
	return live(t, binary, data, "", []begin{{(*author).holds, true}}, "--accept-clock", "wall")
}

// sendsFirst sends messages, one of which expires.
func (a *author) sendsFirst() {
	for i := range 20 {
		a.send("orders", message(fmt.Sprint("m", i)))
	}
	s, err := a.bus.NewSender("orders", nil)
	a.must(err)
	batch, err := s.NewMessageBatch(a.ctx, nil)
	a.must(err)
	for i := range 5 {
		a.must(batch.AddMessage(message(fmt.Sprint("b", i)), nil))
	}
	a.must(s.SendMessageBatch(a.ctx, batch, nil))
	brief := message("brief")
	brief.TimeToLive = to.Ptr(time.Millisecond)
	a.send("mortal", brief, message("lasting"))
	a.receive(a.receiver("mortal", azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}), 1)
}

// settlesFirst settles messages in the ways that the first version knows.
func (a *author) settlesFirst() {
	a.settleEach(a.receiver("orders", azservicebus.ReceiverOptions{}))
	dead := a.receiver("orders", azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	a.must(dead.CompleteMessage(a.ctx, a.receive(dead, 1)[0], nil))
}

// holds sends and locks messages, and leaves the locks.
func (a *author) holds() {
	r := a.receiver("mortal", azservicebus.ReceiverOptions{})
	a.send("mortal", message("held"), message("waiting"))
	a.receive(r, 1)
}

// places are where messages can be peeked.
var places = []string{"orders", "orders/$deadletterqueue", "out", "wrong/$deadletterqueue", "mortal", "mortal/$deadletterqueue", "grouped", "grouped/$deadletterqueue",
	"news/subscriptions/all", "news/subscriptions/all/$deadletterqueue", "news/subscriptions/some", "news/subscriptions/some/$deadletterqueue"}

// peek counts the messages in every place that this build and this directory have.
func (a *author) peek() map[string]int {
	a.t.Helper()
	cs, err := client.ParseConnectionString(a.process.ConnectionString())
	a.must(err)
	bus, err := client.Dial(a.ctx, cs, client.Options{})
	a.must(err)
	defer bus.Close()
	peeked := map[string]int{}
	for _, place := range places {
		const many = 250
		list, err := bus.Peek(a.ctx, place, 1, many)
		if gone := (*client.Error)(nil); errors.As(err, &gone) && gone.Status == http.StatusNotFound {
			continue
		}
		a.must(err)
		if peeked[place] = len(list); len(list) == many {
			a.t.Fatalf("%s has more messages than are counted", place)
		}
	}
	return peeked
}

// TestWrite writes a directory of testdata again. What stood there may have been the only one of
// its shape: look at the difference.
func TestWrite(t *testing.T) {
	if *rewrite == "" {
		t.Skip("no -write")
	}
	i := slices.IndexFunc(shapes, func(s shape) bool { return s.name == *rewrite })
	if i < 0 {
		t.Fatalf("no shape %q", *rewrite)
	}
	s := shapes[i]
	binary := *built
	if binary == "" {
		source := top(t)
		if s.commit != "" {
			source = worktree(t, s.commit)
		}
		binary = filepath.Join(t.TempDir(), "ledgerbus")
		command(t, source, "go", "build", "-o", binary, "./cmd/ledgerbus")
	}
	data := filepath.Join(t.TempDir(), "data")
	note := told{Commit: s.commit, Peeked: s.write(t, binary, data)}
	dump := command(t, "", binary, "log", "dump", "--output", "json", "--bodies", data)
	if err := os.WriteFile(archiveName(s.name), pack(t, data, dump), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	extract(t, s.name, dir)
	note.States = states(t, dir)
	writeNote(t, s.name, note)
}

func archiveName(name string) string { return filepath.Join("testdata", name+".tar.gz") }

// dumpName is the member of an archive with what the build that wrote the directory says is in its
// log.
const dumpName = "dump.json"

// pack packs the files of a data directory that belong to its logs, and the dump of them, but
// nothing of TLS, whose keys stand beside them. The same files make the same archive.
func pack(t *testing.T, dir string, dump []byte) []byte {
	t.Helper()
	files := contents(t, dir)
	files[filepath.Join(dir, dumpName)] = dump
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		if top, _, _ := strings.Cut(filepath.ToSlash(name), "/"); !slices.Contains([]string{dumpName, "namespace.json", "clean", "partitions"}, top) {
			continue
		}
		h := tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(files[path])), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(files[path]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// extract unpacks a directory of testdata, and returns the dump that was made of it by the build
// that wrote it.
func extract(t *testing.T, name, dir string) (dump []byte) {
	t.Helper()
	for file, p := range archive.Files(t, archiveName(name)) {
		if file == dumpName {
			dump = p
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(file))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, p, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 { // directories without a file are not in the archive
		for _, sub := range []string{"wal", "checkpoints"} {
			if err := os.MkdirAll(filepath.Join(dir, "partitions", fmt.Sprintf("%02d", i), sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dump
}

func noteName(name string) string { return filepath.Join("testdata", name+".json") }

func writeNote(t *testing.T, name string, note told) {
	t.Helper()
	p, err := json.MarshalIndent(note, "", "\t")
	if err == nil {
		err = os.WriteFile(noteName(name), append(p, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
