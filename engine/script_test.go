package engine

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts print back into testdata")

// TestScripts runs testdata/*.txt: blocks of commands, and below a ---- line their output. The
// partition decides and applies with no log and no loop. After every block the state is rebuilt
// from the records alone and must be the same (invariant I24), and so must a state that was written
// to a checkpoint and read. Durations of at=, before= and since= count from the start of the
// script, as printed times do.
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

// commands reports whether a block has any, besides comments.
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
	ids     byte               // values of newid() so far
	grants  byte               // session locks so far
	slice   event.Slice        // of the queue named last
	holders map[string]*holder // of sessions, by the names the script gave them

	transaction string // that commands are part of; "": none
}

// holder is a receiver with its session.
type holder struct {
	slice event.Slice
	token event.LockToken
	id    string
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
	s := &script{now: base, base: base, slice: testSlice, holders: map[string]*holder{}}
	s.start(index.New())
	return s
}

var testSlice = event.Slice{Entity: 1}

// changing returns the changes of a settlement that sets the property that an option names to null.
func changing(opts map[string]string) event.Changes {
	if name, ok := opts["changes"]; ok {
		return event.Changes{{Name: name}}
	}
	return nil
}

func testQueue() event.Properties {
	return event.Properties{LockDuration: 30 * time.Second, MaxDeliveryCount: 3, MaxSizeMegabytes: 1024,
		MaxMessageSizeKilobytes: 256, DefaultMessageTimeToLive: event.Forever, AutoDeleteOnIdle: event.Forever}
}

// run carries out the commands of a block and returns what they print.
func (s *script) run(t *testing.T, input string) string {
	var out strings.Builder
	for text := range strings.Lines(input) {
		f := strings.Fields(text)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		carryOut, ok := verbs[f[0]]
		if !ok {
			t.Fatalf("unknown command %q", f[0])
		}
		words, opts := split(f[1:])
		carryOut(s, &line{t, &out, f[0], text, words, opts})
	}
	s.replay(t)
	return out.String()
}

// restart continues from a checkpoint.
func (s *script) restart(t *testing.T) {
	x, err := index.Decode(s.part.Index().Encode(nil))
	if err != nil {
		t.Fatal(err)
	}
	s.start(x)
	for _, e := range x.Catalogue.All() {
		s.configure(t, e)
	}
}

// ask carries out a command without printing its events.
func (s *script) ask(cmd Command) Reply {
	var out strings.Builder
	o := s.do(&out, cmd)
	for o.Again {
		if o.Rest != nil {
			cmd = o.Rest
		}
		o = s.do(&out, cmd)
	}
	return o.Reply
}

func (s *script) receive(out *strings.Builder, cmd *Receive) {
	for {
		locks := cmd.Mode == PeekLock
		if locks {
			s.tokens++
		}
		cmd.Token = event.LockToken{15: s.tokens}
		o := s.do(out, cmd)
		if o.Reply.Delivery() == nil && locks {
			s.tokens-- // not used
		}
		if !o.Again {
			return
		}
	}
}

// accept gives a receiver a session and the script's name for it. Tokens of session locks have
// their number in another byte.
func (s *script) accept(out *strings.Builder, name string, r *Receiver) {
	for {
		token := event.LockToken{0: s.grants + 1, 14: s.grants + 1}
		o := s.do(out, AcceptSession(r.Slice, r, token))
		if g := o.Reply.SessionGrant(); g != nil {
			s.grants++
			s.holders[name] = &holder{r.Slice, g.Token, g.ID}
		}
		if !o.Again {
			return
		}
	}
}

// sessionID returns the session of a command: that of the receiver, or another one that is named.
func (h *holder) sessionID(opts map[string]string) []byte {
	if id, ok := opts["session"]; ok {
		return []byte(id)
	}
	return []byte(h.id)
}

// write writes, applies and prints the events of one record.
func (s *script) write(out *strings.Builder, events []event.Event) {
	if len(events) == 0 {
		return
	}
	s.log = event.AppendRecord(s.log, &s.frame, s.now, events)
	s.records++
	for _, ev := range events {
		fmt.Fprintf(out, "  %s\n", s.show(ev))
		s.part.Apply(s.now, ev)
	}
}

// do decides, writes, applies and prints.
func (s *script) do(out *strings.Builder, cmd Command) Outcome {
	if s.transaction != "" {
		cmd = &Stage{Transaction: transactionOf(s.transaction), Operation: cmd, Bytes: memoryOf(cmd)}
	}
	asked := fmt.Sprintf("%+v", cmd)
	o := s.part.Decide(s.now, cmd)
	if after := fmt.Sprintf("%+v", cmd); after != asked {
		fmt.Fprintf(out, "the command was %s and is %s\n", asked, after)
	}
	if len(o.Events) > 0 && o.Level != needed(o.Events) || o.Lazy != facts(o.Events) {
		fmt.Fprintf(out, "P6, P8: the reply leaves when its frame is at level %d\n", o.Level)
	}
	aborts := len(o.Events) > 0 && o.Events[0].Kind() == event.KindTransactionAborted
	if o.Reply.Err != nil && slices.ContainsFunc(o.Events, func(ev event.Event) bool {
		return !ends(ev) && !(aborts && ev.Kind() == event.KindMessageAbandoned)
	}) {
		fmt.Fprintln(out, "a refusal does more than to end what has passed")
	}
	s.part.Adopt(&o)
	s.write(out, o.Events)
	if o.Reply.Err != nil {
		var e *Error
		errors.As(o.Reply.Err, &e)
		fmt.Fprintf(out, "refused %d: %s\n", e.Code, e.Text)
	}
	for _, at := range o.Reply.Times() {
		fmt.Fprintf(out, "until %v\n", s.at(at))
	}
	if d := o.Reply.Delivery(); d != nil {
		fmt.Fprintln(out, "got "+s.delivery(d))
	}
	messages := o.Reply.Messages()
	for i := range messages {
		fmt.Fprintln(out, "saw "+s.delivery(&messages[i]))
	}
	if o.Reply.More {
		fmt.Fprintln(out, "more")
	}
	if numbers := o.Reply.Numbers(); numbers != nil {
		fmt.Fprintf(out, "numbers %v\n", numbers)
	}
	if g := o.Reply.SessionGrant(); g != nil {
		fmt.Fprintf(out, "session %q until=%s\n", g.ID, s.at(g.LockedUntil))
	}
	if len(o.Events) == 0 && o.Reply.Err == nil && o.Reply.Delivery() == nil && messages == nil {
		fmt.Fprintln(out, "nothing")
	}
	s.noted(out, cmd, &o)
	return o
}

// noted writes the fact of a refusal, as a loop does; refused sends of one second are written as
// one fact.
func (s *script) noted(out *strings.Builder, cmd Command, o *Outcome) {
	note := o.Note
	if stage, ok := cmd.(*Stage); ok {
		cmd = stage.Operation
	}
	if send, ok := cmd.(*Send); ok && o.Reply.Err != nil {
		note = &Note{Fact: &event.SendsRefused{Envelope: event.Envelope{Slice: send.Slice}, Why: o.Reply.Err.(*Error).Code.Refusal(),
			Count: uint64(len(send.Messages)), Since: s.now}}
	}
	if note == nil {
		return
	}
	// the time of the newest record is part of the state
	before, last := s.part.Index().Encode(nil), s.part.Index().LastAt()
	fact := s.part.Decide(s.now, note)
	if !fact.Lazy || fact.Level != log.Ordered || fact.Reply != (Reply{}) {
		fmt.Fprintf(out, "somebody waits for a fact: %+v\n", fact)
	}
	s.part.Adopt(&fact)
	if s.write(out, fact.Events); last == s.now && !bytes.Equal(s.part.Index().Encode(nil), before) {
		fmt.Fprintln(out, "a fact changes the state")
	}
}

// needed returns the level at which the reply to a decision may leave: lock grants and renewals may
// be lost when the power fails; everything else was reported to a client, or is final
// (reliability.md P6, P8).
func needed(events []event.Event) log.Durability {
	for _, ev := range events {
		switch ev.Kind() {
		case event.KindTransactionAborted, event.KindOriginDefined, event.KindMessageLocked, event.KindLockRenewed, event.KindSessionAccepted, event.KindSessionLockRenewed:
		default:
			return log.Durable
		}
	}
	return log.Ordered
}

// facts reports whether events change nothing.
func facts(events []event.Event) bool {
	return len(events) == 1 && events[0].Kind() == event.KindTransactionAborted
}

// ends reports whether an event ends an overdue item: only such events come with a refusal.
func ends(ev event.Event) bool {
	switch ev := ev.(type) {
	case *event.LockExpired, *event.SessionReleased, *event.MessageExpired, *event.TransactionAborted:
		return true
	case *event.MessageDeadLettered:
		return ev.Token == event.LockToken{}
	}
	return false
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
	state := s.part.Index().Encode(nil)
	if !bytes.Equal(x.Encode(nil), state) {
		t.Error("I24: replay of the records gives another state")
	}
	if y, err := index.Decode(state); err != nil || !bytes.Equal(y.Encode(nil), state) {
		t.Errorf("R9: a checkpoint of the state gives another one: %v", err)
	}
}
