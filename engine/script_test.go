package engine

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts print back into testdata")

// TestScripts runs testdata/*.txt: blocks of commands, below a ---- line what they print. The partition decides and
// applies with no log and no loop. After every block the state is rebuilt from the records alone and must be the same
// (invariant I24), and so must one that went through a checkpoint. Durations of at=, before= and since= count from the
// start of the script, as printed times do.
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
	ids     byte               // values of newid() given so far
	grants  byte               // session locks given so far
	slice   event.Slice        // of the queue named last
	holders map[string]*holder // of sessions, by the name the script gave them
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
	return &script{part: NewPartition(0, 1, index.New()), now: base, base: base, slice: testSlice, holders: map[string]*holder{}}
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
		_, dead := opts["dlq"]
		_, remove := opts["delete"]
		sub, mode := event.Main, PeekLock
		if dead {
			sub = event.DeadLetter
		}
		if remove {
			mode = ReceiveAndDelete
		}
		session, inSession := opts["session"]
		switch f[0] {
		case "queue", "topic", "subscription":
			kind := map[string]event.EntityKind{"queue": event.Queue, "topic": event.Topic, "subscription": event.Subscription}[f[0]]
			p := testQueue()
			p.DeadLetteringOnFilterError = true
			s.adjust(t, &p, opts)
			s.put(&out, &PutEntity{Kind: kind, Path: words[0], Properties: p})
		case "use":
			e, ok := s.part.Index().Catalogue.Find(words[0])
			if !ok {
				t.Fatalf("no entity %s", words[0])
			}
			s.slice = event.Slice{Entity: e.ID}
		case "rule", "unrule", "rules":
			s.rules(t, &out, line)
		case "delete":
			s.do(&out, &DeleteEntity{Path: words[0], Reason: "client"})
		case "drop": // what the namespace asks of the partitions after a deletion
			s.part.Forget(s.slice.Entity)
			s.do(&out, DropSlice(s.slice))
		case "send", "schedule":
			cmd := &Send{Slice: s.slice, Numbers: f[0] == "schedule", NewID: s.newID}
			for _, id := range words {
				size := 10
				if v, ok := opts["size"]; ok {
					size = number(t, v)
				}
				m := Message{ID: []byte(id), Body: bytes.Repeat([]byte("x"), size)}
				if v, ok := opts["ttl"]; ok {
					m.TimeToLive = span(t, v)
				}
				if v, ok := opts["at"]; ok {
					m.ScheduledFor = s.base.Add(span(t, v))
				}
				m.SessionID, m.HasSession = []byte(session), inSession
				m.IDType = map[string]event.IDType{"": event.IDString, "ulong": event.IDUlong, "uuid": event.IDUUID,
					"binary": event.IDBinary}[opts["type"]]
				m.Properties = visible(id, opts)
				if v, ok := opts["header"]; ok {
					m.Header = number(t, v)
				}
				if e, _ := s.part.index.Catalogue.Get(s.slice.Entity); e.Kind == event.Topic && m.ScheduledFor > s.now {
					m.Body = packed(m.Properties, m.Header)
				}
				cmd.Messages = append(cmd.Messages, m)
			}
			s.do(&out, cmd)
		case "receive":
			cmd := &Receive{Slice: s.slice, SubQueue: sub, Mode: mode}
			if name, ok := opts["in"]; ok {
				h := s.holders[name]
				cmd.Slice, cmd.HasSession, cmd.Session, cmd.SessionID = h.slice, true, h.token, []byte(h.id)
			}
			s.receive(&out, cmd)
		case "receive-deferred":
			cmd := &ReceiveDeferred{Slice: s.slice, SubQueue: sub, Mode: mode}
			for _, w := range words {
				cmd.Sequences = append(cmd.Sequences, event.SequenceNumber(number(t, w)))
				cmd.Tokens = append(cmd.Tokens, event.LockToken{15: s.tokens + byte(len(cmd.Tokens)) + 1})
			}
			if name, ok := opts["in"]; ok {
				cmd.Session = s.holders[name].token
			}
			if o := s.do(&out, cmd); o.Reply.Err == nil && mode == PeekLock {
				s.tokens += byte(len(cmd.Tokens))
			}
		case "cancel":
			cmd := &CancelScheduled{Slice: s.slice}
			for _, w := range words {
				cmd.Sequences = append(cmd.Sequences, event.SequenceNumber(number(t, w)))
			}
			s.do(&out, cmd)
		case "batch-delete":
			cmd := &BatchDelete{Slice: s.slice, SubQueue: sub, Count: number(t, words[0]), SessionID: []byte(session), HasSession: inSession}
			if v, ok := opts["before"]; ok {
				cmd.Before = s.base.Add(span(t, v))
			}
			o := s.do(&out, cmd)
			fmt.Fprintf(&out, "deleted %d\n", o.Reply.Deleted())
		case "accept", "accept-any": // a session, for the receiver named first
			want := &SessionRequest{Any: f[0] == "accept-any"}
			if len(words) > 1 {
				want.ID = []byte(words[1])
			}
			s.accept(&out, words[0], &Receiver{Slice: s.slice, Session: want})
		case "close": // the receiver of a session
			cause := map[string]event.ReleaseCause{"": event.ReleaseClosed, "lost": event.ReleaseLinkLost,
				"changed": event.ReleaseEntityChanged}[opts["cause"]]
			s.do(&out, ReleaseSession(s.slice, s.holders[words[0]].token, cause))
		case "renew-session":
			r := s.holders[words[0]]
			s.do(&out, &RenewSession{Slice: s.slice, SessionID: s.sessionOf(r, opts), Session: r.token})
		case "set-state":
			r := s.holders[words[0]]
			cmd := &SetSessionState{Slice: s.slice, SessionID: s.sessionOf(r, opts), Session: r.token}
			if len(words) > 1 {
				cmd.State = []byte(words[1])
			}
			if v, ok := opts["size"]; ok {
				cmd.State = bytes.Repeat([]byte("x"), number(t, v))
			}
			s.do(&out, cmd)
		case "get-state":
			o := s.part.Decide(s.now, &GetSessionState{Slice: s.slice, SessionID: []byte(strings.Join(words, ""))})
			switch b := o.Reply.SessionState(); {
			case o.Reply.Err != nil:
				fmt.Fprintf(&out, "refused: %v\n", o.Reply.Err)
			case b == nil:
				fmt.Fprintln(&out, "no state")
			default:
				fmt.Fprintf(&out, "state %q\n", s.frame.blobs[b.Position:b.Position+event.Position(b.Size)])
			}
		case "list":
			cmd := &ListSessions{Slice: s.slice, Top: 100}
			for k, v := range opts {
				switch k {
				case "all":
					cmd.All = true
				case "since":
					cmd.Since = s.base.Add(span(t, v))
				case "skip":
					cmd.Skip = number(t, v)
				case "top":
					cmd.Top = number(t, v)
				}
			}
			o := s.part.Decide(s.now, cmd)
			fmt.Fprintf(&out, "sessions %q\n", o.Reply.SessionIDs())
		case "sweep": // a whole pass, as the loop makes it while a receiver is attached
			for pass := Sweep(&index.Sweep{Slice: s.slice}); s.do(&out, pass).Again; {
			}
		case "restart": // from a checkpoint, with what the start ends
			s.restart(t)
			s.do(&out, ReleaseAll())
		case "complete", "abandon", "release", "defer", "dead-letter":
			cmd := &Settle{Slice: s.slice, SubQueue: sub, Token: token(t, words[0])}
			for _, w := range words[1:] {
				cmd.More = append(cmd.More, token(t, w))
			}
			cmd.Outcome = map[string]SettleOutcome{"complete": Complete, "abandon": Abandon, "release": Release, "defer": Defer,
				"dead-letter": MoveToDeadLetter}[f[0]]
			cmd.Changes, cmd.Reason, cmd.Description = []byte(opts["changes"]), opts["reason"], opts["description"]
			if names, ok := opts["by"]; ok { // by whoever has the sessions of these receivers, "-" for none
				cmd.Sessions = []event.LockToken{}
				for _, name := range strings.Split(names, ",") {
					if name != "-" {
						cmd.Sessions = append(cmd.Sessions, s.holders[name].token)
					}
				}
			}
			s.do(&out, cmd)
		case "renew":
			cmd := &Renew{Slice: s.slice, SubQueue: sub}
			for _, w := range words {
				cmd.Tokens = append(cmd.Tokens, token(t, w))
			}
			s.do(&out, cmd)
		case "peek":
			cmd := &Peek{Slice: s.slice, SubQueue: sub, From: event.SequenceNumber(number(t, words[0])), Count: number(t, words[1]),
				MaxBytes: 1 << 20, SessionID: []byte(session), HasSession: inSession}
			if v, ok := opts["max-bytes"]; ok {
				cmd.MaxBytes = number(t, v)
			}
			s.do(&out, cmd)
		case "advance":
			s.now = s.now.Add(span(t, words[0]))
		case "clock": // what a start does that was told --accept-clock=wall, the clock being so far from the newest record
			set := &event.ClockSet{Number: s.part.index.Clock().Number + 1, Basis: event.BasisWall, From: s.now, To: s.now.Add(span(t, words[0]))}
			s.now, set.Wall = set.To, set.To
			s.write(&out, []event.Event{set})
		case "tick":
			s.do(&out, s.tick(t))
		case "due": // everything whose time has come
			for at := s.part.NextDeadline(); at != 0 && at <= s.now; at = s.part.NextDeadline() {
				s.do(&out, s.tick(t))
			}
		case "counts":
			x := s.part.Index()
			for _, q := range []event.SubQueue{event.Main, event.DeadLetter} {
				fmt.Fprintf(&out, "%v: active %d, locked %d, deferred %d", q, x.Count(s.slice, q, index.Active),
					x.Count(s.slice, q, index.Locked), x.Count(s.slice, q, index.Deferred))
				if n := x.Count(s.slice, q, index.Scheduled); n > 0 {
					fmt.Fprintf(&out, ", scheduled %d", n)
				}
				fmt.Fprintln(&out)
			}
		case "size":
			fmt.Fprintf(&out, "%d bytes\n", s.part.Index().Bytes(s.slice))
		default:
			t.Fatalf("unknown command %q", f[0])
		}
	}
	s.replay(t)
	return out.String()
}

// restart goes on from a checkpoint.
func (s *script) restart(t *testing.T) {
	x, err := index.Decode(s.part.Index().Encode(nil))
	if err != nil {
		t.Fatal(err)
	}
	s.part = NewPartition(0, 1, x)
	for _, e := range x.Catalogue.All() {
		s.configure(t, e)
	}
}

// ask carries out a command whose events nobody wants to see.
func (s *script) ask(cmd Command) Reply {
	var out strings.Builder
	o := s.do(&out, cmd)
	for o.Again {
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

// accept gives a receiver a session and the script's name for it. Tokens of session locks have their number in another byte.
func (s *script) accept(out *strings.Builder, name string, r *Receiver) {
	for {
		token := event.LockToken{14: s.grants + 1}
		o := s.do(out, AcceptSession(r, token))
		if g := o.Reply.SessionGrant(); g != nil {
			s.grants++
			s.holders[name] = &holder{r.Slice, g.Token, g.ID}
		}
		if !o.Again {
			return
		}
	}
}

// sessionOf is the session a command is about: that of the receiver, or another one that is named.
func (s *script) sessionOf(h *holder, opts map[string]string) []byte {
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
	o := s.part.Decide(s.now, cmd)
	if len(o.Events) > 0 && o.Level != needed(o.Events) {
		fmt.Fprintf(out, "P6, P8: the reply leaves when its frame is at level %d\n", o.Level)
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
	if numbers := o.Reply.Numbers(); numbers != nil {
		fmt.Fprintf(out, "numbers %v\n", numbers)
	}
	if g := o.Reply.SessionGrant(); g != nil {
		fmt.Fprintf(out, "session %q until=%s\n", g.ID, s.at(g.LockedUntil))
	}
	if len(o.Events) == 0 && o.Reply.Err == nil && o.Reply.Delivery() == nil && messages == nil {
		fmt.Fprintln(out, "nothing")
	}
	return o
}

// needed is the level at which the reply to a decision may leave: lock grants and renewals may be lost with the power, all else was
// told to somebody, or taken for good (reliability.md P6, P8).
func needed(events []event.Event) log.Durability {
	for _, ev := range events {
		switch ev.Kind() {
		case event.KindOriginDefined, event.KindMessageLocked, event.KindLockRenewed, event.KindSessionAccepted, event.KindSessionLockRenewed:
		default:
			return log.Durable
		}
	}
	return log.Ordered
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

// flags are words that stand for themselves.
var flags = []string{"dlq", "delete", "dead-letter-expired", "sessions", "all", "no-dead-letter-errors", "filtering"}

func split(fields []string) (words []string, opts map[string]string) {
	opts = map[string]string{}
	for _, f := range fields {
		if k, v, ok := strings.Cut(f, "="); ok {
			opts[k] = v
		} else if slices.Contains(flags, f) {
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
	if of, ok := strings.CutPrefix(s, "s"); ok { // of a session
		return event.LockToken{14: byte(number(t, of))}
	}
	return event.LockToken{15: byte(number(t, strings.TrimPrefix(s, "t")))}
}
