package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/test/model"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

const (
	partitionsOfQueue = 16
	keyless           = 4               // streams without a key
	receiversOfWide   = 3               // take what all of them have sent
	answeredWithin    = 5 * time.Second // is well inside the 15 of S4-42
	countedMessages   = 160             // ten in each partition
)

// TestFencedPartitioned fences one of four logs by hand while a partitioned queue is under load,
// again and again: all sends without a key are answered well inside 15 seconds, and stored once;
// those with a key of one of the twelve partitions of the other logs go on as fast as before; sums
// leave out what is away, say so, and are whole right after. It is back within five seconds of a
// restart, without one of the process, and nothing is lost or doubled (S4-05, S4-26, S4-39, S4-42,
// S4-60, S4-72; SM-210, SM-220).
func TestFencedPartitioned(t *testing.T) {
	f := newFencedPartitioned(t)
	f.start()
	f.run(*rounds, f.byHand)
	f.closeKeyless()
	f.close()
}

// newFencedPartitioned makes a data directory with a partitioned queue of which four partitions are
// in the log that is fenced, and one more whose messages are only counted.
func newFencedPartitioned(t *testing.T) *fence {
	t.Helper()
	f := onEmptyDirectory(t)
	for n := range 30 {
		q := admin.NewEntity(event.Queue, fmt.Sprint("wide-", n))
		q.Properties.LockDuration, q.Properties.MaxDeliveryCount, q.Properties.EnablePartitioning = lockDuration, 2000, true
		q.Present.Add(document.LockDuration, document.MaxDeliveryCount, document.EnablePartitioning)
		if _, err := f.admin.Create(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	var suited []string
	placed := f.placed()
	away := func(path string) (n int) {
		for _, at := range placed[path] {
			if at == awayPartition {
				n++
			}
		}
		return n
	}
	for n := range 30 {
		if path := fmt.Sprint("wide-", n); len(placed[path]) == partitionsOfQueue && away(path) == partitionsOfQueue/4 {
			suited = append(suited, path)
		}
	}
	if len(suited) < 2 {
		t.Fatalf("of no two queues four partitions are in log %d: %v", awayPartition, placed)
	}
	wide, counted := suited[0], suited[1]
	for n := range keyless {
		f.streams = append(f.streams, &stream{name: fmt.Sprint("without key ", n), source: wide, end: wide, left: n >= receiversOfWide})
	}
	for _, gone := range []bool{false, true} { // the last one is of the log that is fenced
		for p, at := range placed[wide] {
			if (at == awayPartition) == gone {
				f.streams = append(f.streams, &stream{name: fmt.Sprintf("key of %02d", p), source: wide, end: wide, key: keyOf(p), from: gone, to: gone, left: true})
			}
		}
	}
	f.fill(counted)
	if err := f.process.Stop(); err != nil {
		t.Fatal(err)
	}
	f.check = func(gone bool) { f.counts(counted, away(counted), gone) }
	return f
}

// placed is where each queue is, as the log says.
func (f *fence) placed() map[string][]int {
	f.Helper()
	if err := f.process.Stop(); err != nil {
		f.Fatal(err)
	}
	out, err := exec.CommandContext(f.Context(), f.binary, "log", "dump", "--partition", "0", "-o", "json", f.data).Output()
	if err != nil {
		f.Fatal(err)
	}
	on := map[string][]int{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var e struct {
			Event, Path string
			Hosts       []int
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			f.Fatal(err)
		}
		if e.Event == "EntityCreated" {
			on[e.Path] = e.Hosts
		}
	}
	f.start()
	return on
}

// keyOf is a key of a partition.
func keyOf(partition int) string {
	for n := 0; ; n++ {
		if key := fmt.Sprint("key-", n); model.OfKey(key, partitionsOfQueue) == partition {
			return key
		}
	}
}

// fill puts messages into a queue, as many into each partition.
func (f *fence) fill(queue string) {
	f.Helper()
	client := f.client()
	defer hangUp(client)
	sender, err := client.NewSender(queue, nil)
	for n := 0; err == nil && n < countedMessages; n++ {
		err = sender.SendMessage(f.Context(), &azservicebus.Message{Body: []byte("counted")}, nil)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// counts checks what is told of a queue that nothing happens to, of whose partitions some are away
// or were a moment ago.
func (f *fence) counts(queue string, of int, away bool) {
	want := countedMessages
	if away {
		want -= of * countedMessages / partitionsOfQueue
	}
	e, err := f.admin.Get(f.Context(), event.Queue, queue)
	if err != nil || e.Runtime.Active != want || e.Runtime.Limited != away || e.Runtime.Unknown {
		f.Errorf("away %v: %s has %+v, %v; want %d messages", away, queue, e, err, want)
	}
}

// closeKeyless checks how long sends without a key took.
func (f *fence) closeKeyless() {
	var most time.Duration
	var n int
	for _, s := range f.streams {
		if s.key != "" {
			continue
		}
		for _, c := range s.took {
			n, most = n+1, max(most, c.took)
		}
	}
	if f.Logf("%d sends without a key, the longest took %v", n, most); most > answeredWithin {
		f.Errorf("a send without a key took %v", most)
	}
}
