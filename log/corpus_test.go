package log_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// corpus makes messages as applications send them: orders in JSON of 1 KiB, with random ids,
// numbers, times and texts. The same seed makes the same messages. What is random in each is some
// 90 bytes of ids and numbers, and about 85 words of a vocabulary of 2,000, the common ones more
// often.
type corpus struct {
	rng   *rand.Rand
	words []string
	zipf  *rand.Zipf
	at    time.Time
}

func newCorpus(seed uint64) *corpus {
	rng := rand.New(rand.NewPCG(seed, 1024))
	c := &corpus{rng: rng, zipf: rand.NewZipf(rng, 1.2, 8, 1999), at: time.Date(2030, 3, 17, 17, 46, 40, 0, time.UTC)}
	for range 2000 {
		word := make([]byte, 2+rng.IntN(9))
		for i := range word {
			word[i] = "eeeetttaaooiinnsshhrrddlcumwfgypbvk"[rng.IntN(35)]
		}
		c.words = append(c.words, string(word))
	}
	return c
}

func (c *corpus) uuid() string {
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", c.rng.Uint32(), c.rng.Uint32()&0xffff, c.rng.Uint32()&0xfff, 0x8000|c.rng.Uint32()&0x3fff, c.rng.Uint64()&0xffffffffffff)
}

func (c *corpus) text(n int) string {
	var list []string
	for range n {
		list = append(list, c.words[c.zipf.Uint64()])
	}
	return strings.Join(list, " ")
}

// message returns a message and its message-id.
func (c *corpus) message() (id string, body []byte) {
	type line struct {
		SKU       string  `json:"sku"`
		Name      string  `json:"name"`
		Quantity  int     `json:"quantity"`
		UnitPrice float64 `json:"unitPrice"`
	}
	c.at = c.at.Add(time.Duration(c.rng.ExpFloat64() * float64(200*time.Microsecond)))
	order := struct {
		Type      string  `json:"type"`
		OrderID   string  `json:"orderId"`
		Customer  string  `json:"customerId"`
		CreatedAt string  `json:"createdAt"`
		Currency  string  `json:"currency"`
		Total     float64 `json:"total"`
		Lines     []line  `json:"lines"`
		Note      string  `json:"note"`
	}{Type: "com.example.orders.OrderPlaced", OrderID: c.uuid(), Customer: c.uuid(), CreatedAt: c.at.Format(time.RFC3339Nano),
		Currency: []string{"EUR", "USD", "GBP", "SEK"}[c.rng.IntN(4)]}
	for range 1 + c.rng.IntN(4) {
		l := line{fmt.Sprintf("%c%07d", 'A'+c.rng.IntN(26), c.rng.IntN(1e7)), c.text(3), 1 + c.rng.IntN(9), float64(c.rng.IntN(100000)) / 100}
		order.Total += float64(l.Quantity) * l.UnitPrice
		order.Lines = append(order.Lines, l)
	}
	for {
		p, err := json.Marshal(order)
		if err != nil {
			panic(err) // everything in it can be encoded
		}
		if len(p) >= 1024 {
			return c.uuid(), p[:1024] // the last word may be cut
		}
		order.Note += c.text(1) + " "
	}
}

// Sealed history of 1-KiB messages that were sent, locked and completed is at most 40 % of its
// original size, and 12 % without bodies, with all indexes. The result depends on the corpus: its
// random parts do not compress.
func TestSealedRatio(t *testing.T) {
	t.Parallel()
	s, err := log.Open(t.Context(), t.TempDir(), log.Options{Partitions: 1, Manual: true, SealAfter: -1, ChapterBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.Lead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := newCorpus(16)
	envelope := event.Envelope{Slice: event.Slice{Entity: 4}, Origin: 7}
	const batch, messages = 32, 16 << 10
	for n := event.SequenceNumber(0); n < messages; n += batch {
		var sent, locked, done []event.Event
		at := event.Time(c.at.UnixMilli())
		for i := range event.SequenceNumber(batch) {
			id, body := c.message()
			token := event.LockToken{}
			for k := range token {
				token[k] = byte(c.rng.Uint32())
			}
			sent = append(sent, &event.MessageEnqueued{Envelope: envelope, Sequence: n + i + 1, MessageID: []byte(id), EnqueuedAt: at, ExpiresAt: at + 14*86400_000, Body: event.Blob{Data: body}})
			locked = append(locked, &event.MessageLocked{Envelope: envelope, Sequence: n + i + 1, Token: token, LockedUntil: at + 60_000})
			done = append(done, &event.MessageCompleted{Envelope: envelope, Sequence: n + i + 1, Token: token})
		}
		for _, list := range [][]event.Event{sent, locked, done} {
			w.Batch().AppendRecord(at, list, log.Durable)
			w.Append(w.Batch())
			for w.(log.ManualWriter).Work() {
			}
		}
	}
	for more := true; more; {
		if more, err = p.(log.Sealer).Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	with := sealedPercent(t, p)
	for _, s := range p.Segments() {
		if !strings.HasSuffix(s.File, ".lbs") {
			continue
		}
		if _, err := p.(log.Compactor).DropBodies(t.Context(), s.File, func(*log.Body) bool { return false }, 0); err != nil {
			t.Fatal(err)
		}
	}
	without := sealedPercent(t, p)
	t.Logf("sealed: %.1f %% of raw with bodies, %.1f %% without", with, without)
	if with > 40 || without > 12 {
		t.Errorf("sealed history is %.1f %% of raw with bodies, 40 are allowed; %.1f %% without, 12 are allowed", with, without)
	}
	if err := errors.Join(w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// sealedPercent returns the size of a log's sealed files, in percent of the original size.
func sealedPercent(t *testing.T, p log.Partition) float64 {
	t.Helper()
	raw, stored := 0.0, 0.0
	for s, err := range p.Summaries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Sealed {
			raw, stored = raw+float64(s.End-s.First), stored+float64(s.Stored)
		}
	}
	if raw < 8<<20 {
		t.Fatalf("%.0f bytes are sealed", raw)
	}
	return 100 * stored / raw
}
