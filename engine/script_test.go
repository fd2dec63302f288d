package engine

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts print back into testdata")

// TestScripts runs testdata/*.txt: blocks of commands, below a ---- line what they print. The partition decides and
// applies with no log and no loop. After every block the state is rebuilt from the records alone and must be the same
// (invariant I24).
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newScript()
			var out strings.Builder
			for i, block := range strings.Split(strings.TrimRight(string(src), "\n"), "\n\n") {
				if i > 0 {
					out.WriteString("\n")
				}
				input, _, _ := strings.Cut(block+"\n", "----\n")
				out.WriteString(input)
				if commands(input) {
					out.WriteString("----\n" + s.run(t, input))
				}
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got, want := strings.TrimSpace(out.String()), strings.TrimSpace(string(src)); got != want {
				t.Errorf("output differs; run with -rewrite and look at the difference\n--- got\n%s", diff(want, got))
			}
		})
	}
}

// commands tells whether a block has any, beside comments.
func commands(block string) bool {
	for line := range strings.Lines(block) {
		if line != "\n" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}

func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range g {
		if i >= len(w) || w[i] != g[i] {
			return fmt.Sprintf("line %d: %s", i+1, strings.Join(g[i:min(i+10, len(g))], "\n"))
		}
	}
	return got
}

type script struct {
	part    *Partition
	now     event.Time
	base    event.Time
	frame   memory
	log     []byte // records
	records int
	tokens  byte
}

// memory is a frame that never ends.
type memory struct{ blobs []byte }

func (m *memory) Base() event.Position { return 0 }
func (m *memory) AppendBlob(head, tail []byte) (event.Position, uint32) {
	from := len(m.blobs)
	m.blobs = append(append(m.blobs, head...), tail...)
	return event.Position(from), event.Sum(m.blobs[from:])
}

func newScript() *script {
	base := event.TimeOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	return &script{part: NewPartition(0, 1, index.New()), now: base, base: base}
}

var testSlice = event.Slice{Entity: 1}

func testQueue() event.Properties {
	return event.Properties{LockDuration: 30 * time.Second, MaxDeliveryCount: 3, MaxSizeMegabytes: 1024,
		MaxMessageSizeKilobytes: 256, DefaultMessageTimeToLive: event.Forever, AutoDeleteOnIdle: event.Forever}
}

func (s *script) run(t *testing.T, input string) string {
	var out strings.Builder
	for line := range strings.Lines(input) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		words, opts := split(f[1:])
		sub := event.Main
		if _, ok := opts["dlq"]; ok {
			sub = event.DeadLetter
		}
		switch f[0] {
		case "queue":
			p := testQueue()
			for k, v := range opts {
				switch k {
				case "lock":
					p.LockDuration = span(t, v)
				case "ttl":
					p.DefaultMessageTimeToLive = span(t, v)
				case "max-delivery":
					p.MaxDeliveryCount = uint32(number(t, v))
				case "max-size":
					p.MaxSizeMegabytes = uint32(number(t, v))
				case "dead-letter-expired":
					p.DeadLetteringOnMessageExpiration = true
				case "status":
					p.Status = map[string]event.Status{"disabled": event.Disabled, "send-disabled": event.SendDisabled,
						"receive-disabled": event.ReceiveDisabled}[v]
				default:
					t.Fatalf("unknown setting %q", k)
				}
			}
			s.do(&out, &PutQueue{Path: words[0], Properties: p})
			if e, ok := s.part.Index().Catalogue.Find(words[0]); ok {
				s.part.Configure(view(e))
			}
		case "send":
			cmd := &Send{Slice: testSlice}
			for _, id := range words {
				size := 10
				if v, ok := opts["size"]; ok {
					size = number(t, v)
				}
				m := Message{ID: []byte(id), Body: bytes.Repeat([]byte("x"), size)}
				if v, ok := opts["ttl"]; ok {
					m.TimeToLive = span(t, v)
				}
				cmd.Messages = append(cmd.Messages, m)
			}
			s.do(&out, cmd)
		case "receive":
			s.receive(&out, sub, opts)
		case "complete", "abandon", "release", "defer", "dead-letter":
			cmd := &Settle{Slice: testSlice, SubQueue: sub, Token: token(t, words[0])}
			for _, w := range words[1:] {
				cmd.More = append(cmd.More, token(t, w))
			}
			cmd.Outcome = map[string]SettleOutcome{"complete": Complete, "abandon": Abandon, "release": Release, "defer": Defer,
				"dead-letter": MoveToDeadLetter}[f[0]]
			cmd.Changes, cmd.Reason, cmd.Description = []byte(opts["changes"]), opts["reason"], opts["description"]
			s.do(&out, cmd)
		case "renew":
			cmd := &Renew{Slice: testSlice, SubQueue: sub}
			for _, w := range words {
				cmd.Tokens = append(cmd.Tokens, token(t, w))
			}
			s.do(&out, cmd)
		case "peek":
			cmd := &Peek{Slice: testSlice, SubQueue: sub, From: event.SequenceNumber(number(t, words[0])), Count: number(t, words[1]), MaxBytes: 1 << 20}
			if v, ok := opts["max-bytes"]; ok {
				cmd.MaxBytes = number(t, v)
			}
			s.do(&out, cmd)
		case "advance":
			s.now = s.now.Add(span(t, words[0]))
		case "tick":
			s.do(&out, &Tick{})
		case "counts":
			x := s.part.Index()
			for _, q := range []event.SubQueue{event.Main, event.DeadLetter} {
				fmt.Fprintf(&out, "%v: active %d, locked %d, deferred %d\n", q, x.Count(testSlice, q, index.Active),
					x.Count(testSlice, q, index.Locked), x.Count(testSlice, q, index.Deferred))
			}
		default:
			t.Fatalf("unknown command %q", f[0])
		}
	}
	s.replay(t)
	return out.String()
}

func (s *script) receive(out *strings.Builder, sub event.SubQueue, opts map[string]string) {
	r := &Receiver{Slice: testSlice, SubQueue: sub}
	if _, ok := opts["delete"]; ok {
		r.Mode = ReceiveAndDelete
	}
	for {
		if r.Mode == PeekLock {
			s.tokens++
		}
		o := s.do(out, &Receive{Receiver: r, Token: event.LockToken{15: s.tokens}})
		if o.Reply.Delivery == nil && r.Mode == PeekLock {
			s.tokens-- // not used
		}
		if !o.Again {
			return
		}
	}
}

// do decides, writes, applies and prints.
func (s *script) do(out *strings.Builder, cmd Command) Outcome {
	o := s.part.Decide(s.now, cmd)
	if len(o.Events) > 0 {
		s.log = event.AppendRecord(s.log, &s.frame, s.now, o.Events)
		s.records++
	}
	for _, ev := range o.Events {
		fmt.Fprintf(out, "  %s\n", s.show(ev))
		s.part.Apply(s.now, ev)
	}
	if o.Reply.Err != nil {
		var e *Error
		errors.As(o.Reply.Err, &e)
		fmt.Fprintf(out, "refused %d: %s\n", e.Code, e.Text)
	}
	for _, at := range o.Reply.Times {
		fmt.Fprintf(out, "until %v\n", s.at(at))
	}
	if d := o.Reply.Delivery; d != nil {
		fmt.Fprintln(out, "got "+s.delivery(d))
	}
	for i := range o.Reply.Messages {
		fmt.Fprintln(out, "saw "+s.delivery(&o.Reply.Messages[i]))
	}
	if len(o.Events) == 0 && o.Reply.Err == nil && o.Reply.Delivery == nil && o.Reply.Messages == nil {
		fmt.Fprintln(out, "nothing")
	}
	return o
}

func (s *script) at(t event.Time) string {
	if t == 0 {
		return "-"
	}
	return "+" + t.Sub(s.base).String()
}

func name(t event.LockToken) string {
	if t == (event.LockToken{}) {
		return "-"
	}
	return fmt.Sprintf("t%d", t[15])
}

func (s *script) delivery(d *Delivery) string {
	out := fmt.Sprintf("%d count=%d", d.Sequence, d.DeliveryCount)
	if d.Token != (event.LockToken{}) {
		out += fmt.Sprintf(" token=%s until=%s", name(d.Token), s.at(d.LockedUntil))
	}
	if d.ExpiresAt != 0 {
		out += " expires=" + s.at(d.ExpiresAt)
	}
	if d.TimeToLive != 0 {
		out += " ttl=" + d.TimeToLive.String()
	}
	out += [...]string{"", " deferred", " scheduled"}[d.State]
	for _, c := range d.Changes {
		out += fmt.Sprintf(" changes=%q", s.frame.blobs[c.Position:c.Position+event.Position(c.Size)])
	}
	return out
}

func (s *script) show(ev event.Event) string {
	switch ev := ev.(type) {
	case *event.EntityCreated:
		return fmt.Sprintf("EntityCreated %d %s hosts=%v", ev.Slice.Entity, ev.Path, ev.Hosts)
	case *event.EntityUpdated:
		return fmt.Sprintf("EntityUpdated %d", ev.Slice.Entity)
	case *event.MessageEnqueued:
		return fmt.Sprintf("MessageEnqueued %d id=%s ttl=%v expires=%s batch=%d", ev.Sequence, ev.MessageID, ev.TimeToLive, s.at(ev.ExpiresAt), ev.Batch)
	case *event.MessageLocked:
		return fmt.Sprintf("MessageLocked %d %s until=%s count=%d", ev.Sequence, name(ev.Token), s.at(ev.LockedUntil), ev.DeliveryCount)
	case *event.LockRenewed:
		return fmt.Sprintf("LockRenewed %d %s until=%s", ev.Sequence, name(ev.Token), s.at(ev.LockedUntil))
	case *event.LockExpired:
		return fmt.Sprintf("LockExpired %d %s count=%d", ev.Sequence, name(ev.Token), ev.DeliveryCount)
	case *event.MessageReleased:
		return fmt.Sprintf("MessageReleased %d %s", ev.Sequence, name(ev.Token))
	case *event.MessageAbandoned:
		return fmt.Sprintf("MessageAbandoned %d %s count=%d", ev.Sequence, name(ev.Token), ev.DeliveryCount)
	case *event.MessageCompleted:
		return fmt.Sprintf("MessageCompleted %d %s", ev.Sequence, name(ev.Token))
	case *event.MessageReceivedAndDeleted:
		return fmt.Sprintf("MessageReceivedAndDeleted %d", ev.Sequence)
	case *event.MessageDeferred:
		return fmt.Sprintf("MessageDeferred %d %s count=%d", ev.Sequence, name(ev.Token), ev.DeliveryCount)
	case *event.MessageDeadLettered:
		return fmt.Sprintf("MessageDeadLettered %d %s cause=%v reason=%q description=%q", ev.Sequence, name(ev.Token), ev.Cause, ev.Reason, ev.Description)
	case *event.MessageExpired:
		return fmt.Sprintf("MessageExpired %d expired=%s", ev.Sequence, s.at(ev.ExpiresAt))
	}
	return ev.Kind().String()
}

// replay rebuilds the state from the records and compares it.
func (s *script) replay(t *testing.T) {
	t.Helper()
	x := index.New()
	var dec event.Decoder
	rest := s.log
	for range s.records {
		rec, after, err := dec.Record(0, [2]uint32{0, uint32(len(s.frame.blobs))}, rest)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Events {
			x.Apply(rec.At, ev)
		}
		rest = after
	}
	if !bytes.Equal(x.Encode(nil), s.part.Index().Encode(nil)) {
		t.Error("I24: replay of the records gives another state")
	}
}

func split(fields []string) (words []string, opts map[string]string) {
	opts = map[string]string{}
	for _, f := range fields {
		if k, v, ok := strings.Cut(f, "="); ok {
			opts[k] = v
		} else if f == "dlq" || f == "delete" || f == "dead-letter-expired" {
			opts[f] = ""
		} else {
			words = append(words, f)
		}
	}
	return words, opts
}

func span(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func token(t *testing.T, s string) event.LockToken {
	return event.LockToken{15: byte(number(t, strings.TrimPrefix(s, "t")))}
}
