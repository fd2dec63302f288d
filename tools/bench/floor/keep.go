package floor

import (
	"os"
	"path/filepath"
	"sync"
)

// A keeper makes a floor server keep its messages. It appends sends and settlements to a file, in
// groups that are synced together, and then answers them. Messages wait in memory and are delivered
// to receivers with credit, in turn. While one group is synced the next one fills. The file is
// never read.
type keeper struct {
	file *os.File
	wake chan struct{} // one slot: filling is not empty
	done sync.WaitGroup

	mu      sync.Mutex
	filling group             // guarded by mu
	closed  bool              // guarded by mu
	queues  map[string]*queue // guarded by mu
}

// A group is made durable by one sync.
type group struct {
	bytes []byte
	kept  []keptEntry
}

// A keptEntry is a send or a settlement.
type keptEntry struct {
	conn    *conn // connection that gets the answer
	session *session
	id      uint32 // delivery id
	silent  bool   // no answer is expected
	queue   *queue // of a send
	message []byte
}

func newKeeper(dir string) (*keeper, error) {
	f, err := os.OpenFile(filepath.Join(dir, "floor.kept"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	k := &keeper{file: f, wake: make(chan struct{}, 1), queues: make(map[string]*queue)}
	k.done.Go(k.run)
	return k, nil
}

func (k *keeper) queue(address string) *queue {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queues[address]
	if q == nil {
		q = &queue{}
		k.queues[address] = q
	}
	return q
}

// put adds to the group that fills. The caller must call flush afterwards.
func (k *keeper) put(e keptEntry, bytes []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.filling.bytes = append(k.filling.bytes, bytes...)
	k.filling.kept = append(k.filling.kept, e)
}

func (k *keeper) flush() { poke(k.wake) }

func poke(slot chan struct{}) {
	select {
	case slot <- struct{}{}:
	default:
	}
}

func (k *keeper) run() {
	var g group
	for range k.wake {
		clear(g.kept)
		k.mu.Lock()
		g, k.filling = k.filling, group{g.bytes[:0], g.kept[:0]}
		closed := k.closed
		k.mu.Unlock()
		if closed {
			return
		}
		if len(g.kept) == 0 {
			continue
		}
		if _, err := k.file.Write(g.bytes); err != nil {
			return // after an error the clients wait for ever; acceptable in a benchmark
		}
		if err := fdatasync(k.file); err != nil {
			return
		}
		for i := range g.kept {
			e := &g.kept[i]
			if e.queue != nil {
				e.queue.add(e.message)
			}
			if !e.silent {
				e.conn.inbox.post(notice{session: e.session, id: e.id, sent: e.queue != nil})
			}
		}
	}
}

func (k *keeper) close() error {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.flush()
	k.done.Wait()
	defer os.Remove(k.file.Name())
	return k.file.Close()
}

// A queue contains messages that wait for receivers, or receivers that wait for messages.
type queue struct {
	mu        sync.Mutex
	waiting   [][]byte    // guarded by mu
	receivers []*receiver // guarded by mu; served in turn
}

// A receiver is a link with its remaining credit.
type receiver struct {
	conn     *conn
	session  *session
	link     *link
	limit    uint32 // guarded by the queue's mu, like the fields below
	assigned uint32
}

func (q *queue) add(message []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, message)
	q.serve()
}

// allow sets the total number of deliveries that a receiver may get. With drain it gives up
// deliveries that are impossible now.
func (q *queue) allow(r *receiver, limit uint32, drain bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.limit = limit
	q.serve()
	if drain {
		r.assigned = limit
	}
}

func (q *queue) attach(r *receiver) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.receivers = append(q.receivers, r)
}

func (q *queue) detach(r *receiver) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, o := range q.receivers {
		if o == r {
			q.receivers = append(q.receivers[:i:i], q.receivers[i+1:]...)
			return
		}
	}
}

// serve delivers messages to receivers with credit, one to each in turn. The caller holds mu.
func (q *queue) serve() {
	for idle := 0; len(q.waiting) > 0 && idle < len(q.receivers); {
		r := q.receivers[0]
		q.receivers = append(q.receivers[1:], r)
		if int32(r.limit-r.assigned) <= 0 {
			idle++
			continue
		}
		idle = 0
		r.assigned++
		r.conn.inbox.post(notice{session: r.session, link: r.link, message: q.waiting[0]})
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
	}
}

// A notice tells a connection to send an answer, or a message on one of its links.
type notice struct {
	session *session
	id      uint32
	sent    bool // the answer to a send, else to a settlement
	link    *link
	message []byte
}

// An inbox receives notices for a connection.
type inbox struct {
	wake chan struct{} // one slot

	mu      sync.Mutex
	waiting []notice // guarded by mu
}

func (b *inbox) post(n notice) {
	b.mu.Lock()
	first := len(b.waiting) == 0
	b.waiting = append(b.waiting, n)
	b.mu.Unlock()
	if first {
		poke(b.wake)
	}
}

func (b *inbox) take(spare []notice) []notice {
	clear(spare)
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.waiting
	b.waiting = spare[:0]
	return taken
}

// hear handles the notices of other goroutines for the connection.
func (c *conn) hear() {
	c.notices = c.inbox.take(c.notices)
	for i := range c.notices {
		switch n := &c.notices[i]; {
		case n.link != nil:
			n.link.mail = append(n.link.mail, n.message)
		case n.sent:
			n.session.accept(n.id)
		default:
			n.session.completed = append(n.session.completed, n.id)
		}
	}
}
