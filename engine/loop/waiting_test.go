package loop

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Which receivers have something to do, and in which order, follows from the attaches, flows and
// events. A line is a call, and after the equals sign its result; see waitingTest.call.
func TestWaiting(t *testing.T) {
	t.Parallel()
	for _, c := range waitingScripts {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWaitingTest(t, 4)
			for _, line := range strings.Split(strings.TrimSpace(c.script), "\n") {
				call, want, _ := strings.Cut(line, "=")
				if got := w.call(strings.Fields(call)); got != strings.TrimSpace(want) {
					t.Fatalf("%s: %q, want %q", strings.TrimSpace(line), got, strings.TrimSpace(want))
				}
			}
		})
	}
}

var waitingScripts = []struct{ name, script string }{
	{"nobody waits", `
		stored 1
		serve =
		waiter =
		overdue 100 =
		left = 0`},
	{"nothing to do without credit", `
		attach a 1
		stored 1
		serve =
		flow a 0
		serve =`},
	{"credit first, messages later", `
		attach a 1
		flow a 2
		serve =
		stored 1
		serve = a
		serve =
		stored 1
		stored 1
		serve = a`},
	{"messages first, credit later", `
		attach a 1
		stored 1
		stored 1
		flow a 1
		serve = a
		flow a 2
		serve = a`},
	{"credit is served in the order in which it came", `
		attach a 1
		attach b 1
		flow a 2
		flow b 2
		flow a 3
		stored 1 6
		serve = a a b b a`},
	{"what is taken back is the newest", `
		attach a 1
		attach b 1
		flow a 1
		flow b 1
		flow a 3
		flow a 2
		stored 1 6
		serve = a b a`},
	{"credit that is taken back altogether", `
		attach a 1
		attach b 1
		flow a 2
		flow b 2
		flow a 0
		stored 1 6
		serve = b b
		flow a 1
		serve = a`},
	{"one that leaves while it is marked", `
		attach a 1
		attach b 1
		flow a 5
		flow b 1
		stored 1 3
		detach a
		serve = b
		detach b
		stored 1
		serve =
		left = 0`},
	{"the last one leaves while it is marked", `
		attach a 1
		flow a 5
		stored 1
		detach a
		attach b 1
		serve =
		flow b 1
		serve = b`},
	{"one that is gone asks for nothing", `
		attach a 1
		detach a
		flow a 9
		detach a
		stored 1
		serve =`},
	{"a drain ends when there is nothing more", `
		attach a 1
		attach b 1
		flow a 1
		stored 1 3
		drain b 9 = a b b b:drained
		stored 1
		serve =`},
	{"credit behind a drain", `
		attach a 1
		stored 1 3
		drain a 2 = a a a:drained
		drain a 2 = a:drained
		flow a 3
		serve = a`},
	{"a drain that takes more than one turn, and one that is thought better of meanwhile", `
		attach a 1
		stored 1 5
		drain a 9 1 = a
		turn 1 = a
		turn 1 = a
		flow a 6
		turn 3 = a a
		stored 1
		turn 3 = a
		drain a 9 1 = a:drained`},
	{"queues take turns when there is more than one turn should do", `
		attach a 1
		attach b 2
		attach c 3
		flow a 9
		flow b 9
		flow c 9
		stored 1 5
		stored 2 1
		stored 3 3
		turn 2 = a a b c c
		turn 2 = a a c
		turn 2 = a
		turn 2 =`},
	{"a queue that is marked again keeps its turn", `
		attach a 1
		attach b 2
		flow a 9
		flow b 9
		stored 1
		stored 2
		stored 1
		serve = a a b`},
	{"who browses has its own queue", `
		browse a 1
		browse b 1
		attach c 1
		flow a 2
		flow b 1
		stored 1
		serve = a b
		flow c 1
		serve = c
		stored 1
		serve = a
		detach a
		detach b
		detach c
		left = 0`},
	{"sub-queues and slices are apart", `
		attach a 1
		dead b 1
		attach c 2
		flow a 1
		flow b 1
		flow c 1
		stored 1
		serve = a`},
	{"sessions are given in the order in which receivers came", `
		wait a 1 10
		wait b 1 10
		wait c 1 10
		waiter =
		stored 1 A
		waiter = a
		waiter = a
		grant A
		waiter = b
		none
		waiter =
		stored 1 B
		waiter = b
		grant B
		none
		flow a 1
		flow b 1
		serve = a b`},
	{"a message of a session that is held is for its holder", `
		wait a 1 10
		wait b 1 10
		stored 1 A
		grant A
		none
		flow a 9
		serve = a
		stored 1 A
		waiter =
		serve = a`},
	{"slices in which sessions became available take turns", `
		wait a 1 10
		wait b 2 10
		stored 2 A
		stored 1 A
		waiter = b
		grant A
		waiter = a
		grant A
		waiter =`},
	{"who loses a session is detached, and the next one asked", `
		wait a 1 10
		stored 1 A
		grant A
		flow a 9
		wait b 1 10
		released 1 A = a
		waiter = b
		grant A
		serve =
		released 1 X =
		detach b
		released 1 A =
		left = 0`},
	{"who waits gives up when its time has come", `
		wait a 1 10
		wait b 1 5
		wait c 2 7
		deadline = 5
		overdue 4 =
		overdue 6 = b
		overdue 7 = c
		deadline = 10
		stored 1 A
		waiter = a
		overdue 10 =
		none
		overdue 10 = a
		deadline = 0
		left = 0`},
	{"one in the middle gives up", `
		wait a 1 10
		wait b 1 5
		wait c 1 10
		overdue 5 = b
		stored 1 A
		waiter = a
		grant A
		waiter = c`},
	{"one that leaves while a session is open for it", `
		wait a 1 10
		wait b 1 10
		stored 1 A
		detach a
		waiter = b
		detach b
		waiter =
		deadline = 0
		left = 0`},
	{"all leave a slice that is open, and others come", `
		wait a 1 10
		stored 1 A
		detach a
		wait b 1 10
		waiter =
		open 1
		waiter = b`},
	{"expired messages are looked for while a receiver is active", `
		attach a 1
		deadline = 0
		dead b 1
		flow b 1
		deadline = 0
		flow a 1
		deadline = 1
		sweep 1 =
		deadline = 0
		expiring 1 8
		deadline = 8
		sweep 8 = 1
		detach a
		sweep 8 =
		detach b
		left = 0`},
	{"there are no more receivers than may be", `
		attach a 1
		dead b 1
		browse c 1
		wait d 1 10
		attach e 1 = refused
		attach f 2
		detach c
		attach e 1`},
}

// waitingTest replaces the dispatcher: it knows how many messages there are, and nothing of locks
// or logs.
type waitingTest struct {
	t    *testing.T
	w    receivers
	by   map[string]*receiver
	last event.SequenceNumber
	sent map[string]int // undelivered messages, by slice or slice and session
}

func newWaitingTest(t *testing.T, limit int) *waitingTest {
	return &waitingTest{t: t, w: newReceivers(engine.NewPartition(0, 1, index.New()), limit), by: map[string]*receiver{}, sent: map[string]int{}}
}

// call carries out a line: a verb, and its arguments.
func (w *waitingTest) call(words []string) string {
	verb, words := words[0], append(words[1:], "", "", "")
	switch verb {
	case "attach", "dead", "browse", "wait":
		// a receiver to a slice; wait: for a session, until a time
		return w.attach(verb, words[0], w.slice(words[1]), w.number(words[2]))
	case "stored": // messages in a slice, or one in a session of it
		w.stored(w.slice(words[0]), words[1], 0)
	case "expiring": // a message that expires at a time
		w.stored(w.slice(words[0]), "", event.Time(w.number(words[1])))
	case "released": // a session
		if r := w.w.decided(&event.SessionReleased{Envelope: event.Envelope{Slice: w.slice(words[0])}, SessionID: []byte(words[1])}); r != nil {
			return w.name(r)
		}
	case "open": // a slice: a session may have become available
		w.w.OpenSessions(w.slice(words[0]))
	case "flow", "drain", "detach":
		// a receiver, a limit; how many messages a drain gets at once, 0: all
		return w.receiver(verb, w.by[words[0]], uint32(w.number(words[1])), cmp.Or(w.number(words[2]), 1<<20))
	case "serve": // all there is
		return w.turn(1 << 20)
	case "turn": // that many messages of each queue
		return w.turn(w.number(words[0]))
	case "sweep": // at a time
		if s := w.w.sweeps.Next(event.Time(w.number(words[0])), w.w.part.Index()); s != nil {
			return fmt.Sprint(s.slice.Entity)
		}
	case "deadline":
		return fmt.Sprint(int64(w.w.Deadline()))
	case "left": // slices with receivers
		return fmt.Sprint(len(w.w.entities) + len(w.w.counts) + w.w.sweeps.list.Len() + len(w.w.deadlines))
	default:
		return w.session(verb, words[0])
	}
	return ""
}

// session carries out the lines about receivers that wait for a session.
func (w *waitingTest) session(verb, word string) string {
	switch verb {
	case "waiter":
		if r := w.w.NextWaiter(); r != nil {
			return w.name(r)
		}
	case "grant": // a session, to the waiter
		w.w.Granted(w.w.NextWaiter(), word, event.LockToken{})
	case "none":
		if w.w.NextWaiter() != nil {
			w.w.NoSession()
		}
	case "overdue": // at a time
		if r := w.w.Overdue(event.Time(w.number(word)), false); r != nil {
			w.w.Detach(r)
			return w.name(r)
		}
	default:
		w.t.Fatalf("%s?", verb)
	}
	return ""
}

func (w *waitingTest) attach(how, name string, slice event.Slice, until int) string {
	r := &receiver{until: event.Time(until), Receiver: &engine.Receiver{Slice: slice, Mode: engine.PeekLock,
		Entity: &engine.Entity{ID: slice.Entity, Kind: event.Queue, Path: "q"}}}
	switch how {
	case "dead":
		r.SubQueue = event.DeadLetter
	case "browse":
		r.Mode = engine.Browse
	case "wait":
		r.Session = &engine.SessionRequest{Any: true, Wait: time.Hour}
	}
	if err := w.w.Attach(r); err != nil {
		return "refused"
	}
	if r.Session != nil {
		w.w.Wait(r)
	}
	w.by[name] = r
	return ""
}

func (w *waitingTest) stored(slice event.Slice, what string, expires event.Time) {
	n, err := strconv.Atoi(what)
	ev := &event.MessageEnqueued{Envelope: event.Envelope{Slice: slice}, ExpiresAt: expires}
	if err != nil {
		n = 1
		ev.SessionID, ev.HasSession, ev.InSession = []byte(what), what != "", what != ""
	}
	for range n {
		w.last++
		ev.Sequence = w.last
		w.w.part.Apply(0, ev)
		w.sent[fmt.Sprint(slice.Entity, string(ev.SessionID))]++
		w.w.decided(ev)
	}
}

// receiver carries out the lines about requests of a receiver. One that drains is served at once.
func (w *waitingTest) receiver(verb string, r *receiver, limit uint32, most int) string {
	switch {
	case w.w.receiver(r.Receiver) == nil: // it is gone
	case verb == "detach":
		w.w.Detach(r)
	default:
		if w.w.Flow(r, limit, verb == "drain"); verb == "drain" {
			queue := w.w.queueOf(r)
			names, all := w.serve(queue, most)
			if !all {
				w.w.mark(queue)
				return strings.Join(names, " ")
			}
			return strings.Join(append(names, w.drained(queue)...), " ")
		}
	}
	return ""
}

// turn serves the receivers that Next gives, with at most that many messages of each queue, and
// returns which of them got one.
func (w *waitingTest) turn(most int) string {
	var names []string
	for q := w.w.Next(); q != nil; q = w.w.Next() {
		some, all := w.serve(q, most)
		names = append(names, some...)
		if w.w.Served(all); all {
			names = append(names, w.drained(q)...)
		}
	}
	w.w.Resume()
	return strings.Join(names, " ")
}

func (w *waitingTest) serve(q *receiverQueue, most int) (names []string, all bool) {
	for r := q.Next(); r != nil; r = q.Next() {
		from := fmt.Sprint(r.Slice.Entity, string(r.sessionID))
		if r.SubQueue != event.Main || w.sent[from] == 0 || r.Mode == engine.Browse && r.browseFrom(0) > w.last {
			break
		}
		if len(names) == most {
			return names, false
		}
		if r.Mode != engine.Browse {
			w.sent[from]--
		}
		q.Assign(w.last)
		names = append(names, w.name(r))
	}
	return names, true
}

func (w *waitingTest) drained(q *receiverQueue) (names []string) {
	for _, r := range q.TakeDrained() {
		names = append(names, w.name(r)+":drained")
	}
	return names
}

func (w *waitingTest) name(r *receiver) string {
	for name, other := range w.by {
		if other == r {
			return name
		}
	}
	return "?"
}

func (w *waitingTest) slice(word string) event.Slice {
	return event.Slice{Entity: event.EntityID(w.number(word))}
}

func (w *waitingTest) number(word string) int {
	if word == "" {
		return 0
	}
	n, err := strconv.Atoi(word)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}
