package engine

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// line is one command of a script: a verb, words, and options as name=value or by themselves.
type line struct {
	t     *testing.T
	out   *strings.Builder
	verb  string
	text  string
	words []string
	opts  map[string]string
}

// verbs are the commands of the script language.
var verbs = map[string]func(*script, *line){
	"queue": (*script).entity, "topic": (*script).entity, "subscription": (*script).entity,
	"use":    (*script).use,
	"rule":   (*script).rules,
	"unrule": (*script).rules,
	"rules":  (*script).rules,
	"delete": func(s *script, l *line) { s.do(l.out, &DeleteEntity{Path: l.words[0], Reason: "client"}) },
	"drop":   (*script).drop,

	"send": (*script).send, "schedule": (*script).send,
	"cancel": func(s *script, l *line) {
		s.do(l.out, &CancelScheduled{Slice: s.slice, Sequences: l.sequences()})
	},

	"receive":          (*script).receiveOne,
	"receive-deferred": (*script).receiveDeferred,
	"peek":             (*script).peek,
	"batch-delete":     (*script).batchDelete,
	"complete":         (*script).settle, "abandon": (*script).settle, "release": (*script).settle, "defer": (*script).settle, "dead-letter": (*script).settle,
	"renew": func(s *script, l *line) {
		s.do(l.out, &Renew{Slice: s.slice, SubQueue: l.subQueue(), Tokens: l.tokens(l.words)})
	},

	"accept": (*script).acceptSession, "accept-any": (*script).acceptSession,
	"close":         (*script).close,
	"renew-session": (*script).renewSession,
	"set-state":     (*script).setState,
	"get-state":     (*script).getState,
	"list":          (*script).list,

	"commit": func(s *script, l *line) {
		s.do(l.out, &Commit{Transaction: transactionOf(l.words[0]), Slice: s.slice})
	},
	"rollback": func(s *script, l *line) {
		cause := map[string]event.AbortCause{"": event.AbortRolledBack, "lost": event.AbortLost}[l.opts["cause"]]
		s.do(l.out, &Rollback{Transaction: transactionOf(l.words[0]), Slice: s.slice, Cause: cause})
	},

	"advance": func(s *script, l *line) { s.now = s.now.Add(span(l.t, l.words[0])) },
	"clock":   (*script).setClock,
	"tick":    func(s *script, l *line) { s.do(l.out, s.tick(l.t)) },
	"due":     (*script).due,
	"sweep":   (*script).sweep,
	"restart": func(s *script, l *line) { // from a checkpoint, with what the start ends
		s.restart(l.t)
		s.do(l.out, ReleaseAll())
	},

	"counts": (*script).counts,
	"size":   func(s *script, l *line) { fmt.Fprintf(l.out, "%d bytes\n", s.part.Index().Bytes(s.slice)) },
}

// subQueue returns the sub-queue of a command: with dlq the dead-letter queue.
func (l *line) subQueue() event.SubQueue {
	if _, dead := l.opts["dlq"]; dead {
		return event.DeadLetter
	}
	return event.Main
}

// mode returns how messages are received: with delete they are deleted.
func (l *line) mode() ReceiveMode {
	if _, remove := l.opts["delete"]; remove {
		return ReceiveAndDelete
	}
	return PeekLock
}

// sequences returns the words as sequence numbers.
func (l *line) sequences() (all []event.SequenceNumber) {
	for _, w := range l.words {
		all = append(all, event.SequenceNumber(number(l.t, w)))
	}
	return all
}

// tokens returns the tokens that words name.
func (l *line) tokens(words []string) (all []event.LockToken) {
	for _, w := range words {
		all = append(all, token(l.t, w))
	}
	return all
}

// entity creates a queue, topic or subscription, or changes it.
func (s *script) entity(l *line) {
	kind := map[string]event.EntityKind{"queue": event.Queue, "topic": event.Topic, "subscription": event.Subscription}[l.verb]
	p := testQueue()
	p.DeadLetteringOnFilterError = true
	s.adjust(l.t, &p, l.opts)
	s.put(l.out, &PutEntity{Kind: kind, Path: l.words[0], Properties: p})
}

// use names the entity for the commands that follow.
func (s *script) use(l *line) {
	e, ok := s.part.Index().Catalogue.Find(l.words[0])
	if !ok {
		l.t.Fatalf("no entity %s", l.words[0])
	}
	s.slice = event.Slice{Entity: e.ID}
}

// drop does the work of the partitions after a deletion.
func (s *script) drop(l *line) {
	s.part.Forget(s.slice.Entity)
	s.do(l.out, DropSlice(s.slice))
}

// send sends messages with the given ids, all alike; schedule asks for their numbers.
func (s *script) send(l *line) {
	cmd := &Send{Slice: s.slice, Numbers: l.verb == "schedule"}
	for _, id := range l.words {
		cmd.Messages = append(cmd.Messages, s.message(l, id))
	}
	if path, ok := l.opts["to"]; ok { // through the entity that was named last
		e, _ := s.part.Index().Catalogue.Find(path)
		cmd.Destination = View(e, nil)
	}
	s.do(l.out, cmd)
}

// message returns a message according to the options of a line.
func (s *script) message(l *line, id string) Message {
	m := Message{ID: []byte(id), Body: bytes.Repeat([]byte("x"), 10)}
	if v, ok := l.opts["size"]; ok {
		m.Body = bytes.Repeat([]byte("x"), number(l.t, v))
	}
	if v, ok := l.opts["ttl"]; ok {
		m.TimeToLive = span(l.t, v)
	}
	if v, ok := l.opts["at"]; ok {
		m.ScheduledFor = s.base.Add(span(l.t, v))
	}
	session, inSession := l.opts["session"]
	m.SessionID, m.HasSession = []byte(session), inSession
	m.IDType = map[string]event.IDType{"": event.IDString, "ulong": event.IDUlong, "uuid": event.IDUUID,
		"binary": event.IDBinary}[l.opts["type"]]
	m.Properties = visible(id, l.opts)
	if v, ok := l.opts["header"]; ok {
		m.Header = number(l.t, v)
	}
	if e, _ := s.part.index.Catalogue.Get(s.slice.Entity); e.Kind == event.Topic && m.ScheduledFor > s.now {
		m.Body = packed(m.Properties, m.Header)
	}
	return m
}

// receiveOne receives a message, in the session of the receiver that in= names.
func (s *script) receiveOne(l *line) {
	cmd := &Receive{Slice: s.slice, SubQueue: l.subQueue(), Mode: l.mode()}
	if name, ok := l.opts["in"]; ok {
		h := s.holders[name]
		cmd.Slice, cmd.HasSession, cmd.Session, cmd.SessionID = h.slice, true, h.token, []byte(h.id)
	}
	s.receive(l.out, cmd)
}

func (s *script) receiveDeferred(l *line) {
	cmd := &ReceiveDeferred{Slice: s.slice, SubQueue: l.subQueue(), Mode: l.mode(), Sequences: l.sequences()}
	for i := range cmd.Sequences {
		cmd.Tokens = append(cmd.Tokens, event.LockToken{15: s.tokens + byte(i) + 1})
	}
	if name, ok := l.opts["in"]; ok {
		cmd.Session = s.holders[name].token
	}
	if o := s.do(l.out, cmd); o.Reply.Err == nil && cmd.Mode == PeekLock {
		s.tokens += byte(len(cmd.Tokens))
	}
}

func (s *script) peek(l *line) {
	session, inSession := l.opts["session"]
	cmd := &Peek{Slice: s.slice, SubQueue: l.subQueue(), From: l.sequences()[0], Count: number(l.t, l.words[1]),
		MaxBytes: 1 << 20, SessionID: []byte(session), HasSession: inSession}
	if v, ok := l.opts["max-bytes"]; ok {
		cmd.MaxBytes = number(l.t, v)
	}
	s.do(l.out, cmd)
}

func (s *script) batchDelete(l *line) {
	session, inSession := l.opts["session"]
	cmd := &BatchDelete{Slice: s.slice, SubQueue: l.subQueue(), Count: number(l.t, l.words[0]), SessionID: []byte(session), HasSession: inSession}
	if v, ok := l.opts["before"]; ok {
		cmd.Before = s.base.Add(span(l.t, v))
	}
	o := s.do(l.out, cmd)
	fmt.Fprintf(l.out, "deleted %d\n", o.Reply.Deleted())
}

// settle settles the messages of the tokens given, as a caller who holds the sessions of the
// receivers that by= names; with "-" those of no receiver.
func (s *script) settle(l *line) {
	tokens := l.tokens(l.words)
	cmd := &Settle{Slice: s.slice, SubQueue: l.subQueue(), Token: tokens[0], More: tokens[1:]}
	cmd.Outcome = map[string]SettleOutcome{"complete": Complete, "abandon": Abandon, "release": Release, "defer": Defer,
		"dead-letter": MoveToDeadLetter}[l.verb]
	cmd.Changes, cmd.Reason, cmd.Description = changing(l.opts), l.opts["reason"], l.opts["description"]
	_, cmd.Final = l.opts["final"]
	if names, ok := l.opts["by"]; ok {
		cmd.Sessions = []event.LockToken{}
		for _, name := range strings.Split(names, ",") {
			if name != "-" {
				cmd.Sessions = append(cmd.Sessions, s.holders[name].token)
			}
		}
	}
	s.do(l.out, cmd)
}

// acceptSession gives a session to the receiver named first.
func (s *script) acceptSession(l *line) {
	want := &SessionRequest{Any: l.verb == "accept-any"}
	if len(l.words) > 1 {
		want.ID = []byte(l.words[1])
	}
	s.accept(l.out, l.words[0], &Receiver{Slice: s.slice, Session: want})
}

// close ends the session of a receiver.
func (s *script) close(l *line) {
	cause := map[string]event.ReleaseCause{"": event.ReleaseClosed, "lost": event.ReleaseLinkLost,
		"changed": event.ReleaseEntityChanged}[l.opts["cause"]]
	s.do(l.out, ReleaseSession(s.slice, s.holders[l.words[0]].token, cause))
}

func (s *script) renewSession(l *line) {
	h := s.holders[l.words[0]]
	s.do(l.out, &RenewSession{Slice: s.slice, SessionID: h.sessionID(l.opts), Session: h.token})
}

func (s *script) setState(l *line) {
	h := s.holders[l.words[0]]
	cmd := &SetSessionState{Slice: s.slice, SessionID: h.sessionID(l.opts), Session: h.token}
	if len(l.words) > 1 {
		cmd.State = []byte(l.words[1])
	}
	if v, ok := l.opts["size"]; ok {
		cmd.State = bytes.Repeat([]byte("x"), number(l.t, v))
	}
	s.do(l.out, cmd)
}

func (s *script) getState(l *line) {
	o := s.part.Decide(s.now, &GetSessionState{Slice: s.slice, SessionID: []byte(strings.Join(l.words, ""))})
	switch b := o.Reply.SessionState(); {
	case o.Reply.Err != nil:
		fmt.Fprintf(l.out, "refused: %v\n", o.Reply.Err)
	case b == nil:
		fmt.Fprintln(l.out, "no state")
	default:
		fmt.Fprintf(l.out, "state %q\n", s.frame.blobs[b.Position:b.Position+event.Position(b.Size)])
	}
}

// list asks for a page of sessions.
func (s *script) list(l *line) {
	cmd := &ListSessions{Slice: s.slice, Top: 100}
	for k, v := range l.opts {
		switch k {
		case "all":
			cmd.All = true
		case "since":
			cmd.Since = s.base.Add(span(l.t, v))
		case "skip":
			cmd.Skip = number(l.t, v)
		case "top":
			cmd.Top = number(l.t, v)
		}
	}
	o := s.part.Decide(s.now, cmd)
	fmt.Fprintf(l.out, "sessions %q\n", o.Reply.SessionIDs().IDs)
}

// sweep makes a whole pass, as the loop does while a receiver is attached.
func (s *script) sweep(l *line) {
	for out := s.do(l.out, Sweep(s.slice)); out.Again; out = s.do(l.out, out.Rest) {
	}
}

// setClock does the work of a start with --accept-clock=wall if the clock is that far from the
// newest record.
func (s *script) setClock(l *line) {
	set := &event.ClockSet{Number: s.part.index.Clock().Number + 1, Basis: event.BasisWall, From: s.now, To: s.now.Add(span(l.t, l.words[0]))}
	s.now, set.Wall = set.To, set.To
	s.write(l.out, []event.Event{set})
}

// due does everything that is due.
func (s *script) due(l *line) {
	for at := s.part.NextDeadline(); at != 0 && at <= s.now; at = s.part.NextDeadline() {
		s.do(l.out, s.tick(l.t))
	}
}

func (s *script) counts(l *line) {
	x := s.part.Index()
	for _, q := range []event.SubQueue{event.Main, event.DeadLetter} {
		fmt.Fprintf(l.out, "%v: active %d, locked %d, deferred %d", q, x.Count(s.slice, q, index.Active),
			x.Count(s.slice, q, index.Locked), x.Count(s.slice, q, index.Deferred))
		if n := x.Count(s.slice, q, index.Scheduled); n > 0 {
			fmt.Fprintf(l.out, ", scheduled %d", n)
		}
		fmt.Fprintln(l.out)
	}
}

// flags are words without a value.
var flags = []string{"dlq", "delete", "dead-letter-expired", "sessions", "all", "no-dead-letter-errors", "filtering", "final"}

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
		n := byte(number(t, of))
		return event.LockToken{0: n, 14: n}
	}
	return event.LockToken{15: byte(number(t, strings.TrimPrefix(s, "t")))}
}
