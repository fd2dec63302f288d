package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Entities with several partitions (semantics.md 10, docs/decisions/0051). Each partition is a
// queue of the simulation, with a queue of the model, in the log that hosts it; what they are
// together is here: who chooses the partition of a message, and what is asked of several. A
// receiver of such an entity has a port in each log (ports.go).

// split is an entity, as its partitions; most have one.
type split struct {
	parts []*queue // by number
	model *model.Partitioned
}

// several reports whether an entity has several partitions.
func (q *queue) several() bool { return len(q.whole.parts) > 1 }

// first reports whether it is the first partition of its entity, which stands for all of it where
// settings are concerned.
func (q *queue) first() bool { return q == q.whole.parts[0] }

// site is the first partition of the entity in the same log: it stands for what the log's loop
// knows of the entity.
func (q *queue) site() *queue {
	for _, part := range q.whole.parts {
		if part.host == q.host {
			return part
		}
	}
	return q
}

// sites are the sites of the entity in all logs.
func (q *queue) sites() (all []*queue) {
	for _, part := range q.whole.parts {
		if part == part.site() {
			all = append(all, part)
		}
	}
	return all
}

// local are the partitions of the entity in the same log.
func (q *queue) local() (all []*queue) {
	for _, part := range q.whole.parts {
		if part.host == q.host {
			all = append(all, part)
		}
	}
	return all
}

// use notes that somebody asked an entity for something.
func (q *queue) use(at int64) {
	head := q.whole.parts[0]
	head.used = max(head.used, at)
}

// now makes a version of an entity the one that clients see.
func (q *queue) now(e *engine.Entity) {
	for _, part := range q.whole.parts {
		part.entity = e
	}
}

// settings are those of a partition, which has its part of the entity's room.
func (q *queue) settings(p event.Properties) model.Settings {
	s := settings(q.kind, p)
	s.MaxBytes /= int64(len(q.whole.parts))
	return s
}

// spread makes as many partitions of an entity as it has, and checks that each is where the
// placement hash says (log-format.md 8).
func (w *world) spread(q *queue, id event.EntityID, hosts []byte) {
	must := 1
	switch {
	case q.topic != nil:
		must = len(q.topic.whole.parts)
	case q.partitioned(w):
		must = max(1, w.o.split)
	}
	if len(hosts) != must {
		w.broken("P14", "%s has %d partitions, it must have %d", q.path, len(hosts), must)
	}
	for i, at := range hosts {
		if by := w.placement(id, i); q.topic == nil && by != int(at) {
			w.broken("P14", "partition %d of %s is in log %d, it must be in %d", i, q.path, at, by)
		}
	}
	for i := len(q.whole.parts); i < must; i++ {
		part := &queue{n: len(w.queues), kind: q.kind, path: q.path, whole: q.whole, ended: q.ended}
		if q.topic != nil {
			part.topic = q.topic.whole.parts[i]
		}
		q.whole.parts = append(q.whole.parts, part)
		w.queues = append(w.queues, part)
	}
	q.whole.model.Queues, q.whole.model.Turn = make([]*model.Queue, must), nil
	for log := range w.parts { // those of one log together (decision 66)
		for i, at := range hosts {
			if int(at) == log {
				q.whole.model.Turn = append(q.whole.model.Turn, i)
			}
		}
	}
}

// partitioned reports whether an entity is asked for with several partitions.
func (q *queue) partitioned(w *world) bool {
	props, _ := w.decided(q)
	return props.EnablePartitioning && w.o.split > 1
}

// ofKey is the partition of an entity that a session is in.
func (q *queue) ofSession(id string) *queue {
	return q.whole.parts[model.OfKey(id, len(q.whole.parts))]
}

// runtime is what management is told of messages.
func runtimeOf(c model.Counts) (r engine.Runtime) {
	r.Active, r.DeadLetter, r.TransferDeadLetter, r.Transfer, r.Scheduled, r.SizeBytes = c.Active, c.Dead, c.TransferDead, c.Transfer, c.Scheduled, c.Bytes
	return r
}

// identity is a message-id with what else counts toward a duplicate, as the index has it.
func identity(id string) event.Identity {
	name, key, keyed := strings.Cut(id[1:], "\x00")
	return event.Identity{Type: event.IDType(id[0] - '0'), ID: []byte(name), Keyed: keyed, Key: []byte(key)}
}

// keys are what the partition of a message is chosen by.
func (m *sent) keys() model.Keys {
	return model.Keys{Session: m.session, HasSession: m.hasSession, Partition: m.partitionKey, ID: m.name}
}

// route has the partition of a send chosen by the engine and by the model, which must agree. False:
// it is refused.
func (w *world) route(a *ask) bool {
	cmd := a.cmd.(*engine.Send)
	var keys []model.Keys
	for _, m := range a.sent {
		keys = append(keys, m.keys())
	}
	to := a.q
	if a.to != nil && a.to.several() {
		to = a.to
	}
	at, any, r := a.q.whole.model.Route(keys, to.whole.model)
	err := engine.Target{Entity: a.q.entity}.Place(cmd)
	if (err != nil) != (r != model.Accepted) || err == nil && (int(cmd.Slice.Partition) != at || (cmd.Others > 0) != any) {
		w.broken("S4 (route)", "%s: %+v goes to partition %d, others: %d, %v; it must go to %d, any: %v, %v", a.q.path, keys, cmd.Slice.Partition, cmd.Others, err, at, any, r)
	}
	if err != nil {
		return false
	}
	a.settle(a.q.whole.parts[at])
	if any {
		w.sends[a.tag] = a
	}
	w.stats.RoutedInTurn += int64(bit(any))
	w.stats.RoutedByKey += int64(bit(!any))
	return true
}

// settle makes a partition the one that a send is for.
func (a *ask) settle(q *queue) {
	a.q = q
	for _, m := range a.sent {
		m.q = q
	}
}

// elsewhere has a send without a key, which nobody has looked at, go to another partition, if there
// is one.
func (w *world) elsewhere(a *ask, cmd *engine.Send) bool {
	if cmd == nil || !a.q.several() {
		return false
	}
	served := func(i int) bool { return !a.q.whole.parts[i].host.away }
	a.tried = append(a.tried, int(a.q.slice.Partition))
	at, may := 0, false
	if cmd.Others > 0 {
		at, may = a.q.whole.model.Elsewhere(a.tried, served)
	}
	_, ok := cmd.Elsewhere(func(id engine.PartitionID) bool { return !w.parts[id].away })
	if ok != may || ok && int(cmd.Slice.Partition) != at {
		w.broken("S4 (route)", "%s: a send without a key, which was refused in %v, goes to partition %d: %v; it must to %d: %v", a.q.path, a.tried, cmd.Slice.Partition, ok, at, may)
	}
	if ok {
		a.settle(a.q.whole.parts[at])
		w.stats.Elsewhere++
	}
	return ok
}

// sending is what a client sends, if that is what it asks for.
func (a *ask) sending() *engine.Send {
	cmd, _ := a.cmd.(*engine.Send)
	return cmd
}

// sitesAway are the logs of an entity that do not serve.
func (w *world) sitesAway(q *queue) (away []engine.PartitionID) {
	for _, site := range q.sites() {
		if q.several() && site.host.away {
			away = append(away, engine.PartitionID(site.host.id))
		}
	}
	return away
}

// splitStream keeps what is drawn about partitions of entities apart.
const splitStream = 0x9fb21c651e98df25

// anyNumber is one that a message of the partition may have.
func (q *queue) anyNumber(w *world) uint64 {
	return q.model.Base + uint64(w.rng.IntN(int(q.model.Last-q.model.Base)+2))
}

// partitionKey gives most messages a key; with a session, the key is the session.
func (w *world) partitionKey(l *life) {
	switch {
	case w.o.keyless && !l.q.entity.Properties.RequiresSession && w.chance(70):
		if l.session, l.hasSession = "", false; l.q.kind == event.Topic && len(l.body) > 0 {
			w.describe(&l.sent)
		}
	case l.hasSession && w.chance(30):
		l.partitionKey = l.session
	case !l.hasSession && w.chance(50):
		l.partitionKey = pick(w.rng, "p", "q", "r", "s")
	}
}

// identity is what a message and its duplicates have in common: the id and, in an entity with
// several partitions, the key.
func (m *sent) identity() string {
	switch props := m.q.entity.Properties; {
	case !m.q.several() || !props.RequiresDuplicateDetection:
	case m.hasSession:
		return m.key + "\x00" + m.session
	case m.partitionKey != "":
		return m.key + "\x00" + m.partitionKey
	}
	return m.key
}

// notWhole reports whether a log that an entity with several partitions is in, or would be in, does
// not serve: then the entity cannot be changed (10.6).
func (w *world) notWhole(a *ask, exists bool) (away bool) {
	q := a.q
	switch {
	case exists:
		away = q.several() && q.refused()
	case q.topic != nil:
		away = q.topic.several() && q.topic.refused()
	case a.props.EnablePartitioning && w.o.split > 1:
		id := w.parts[0].state.Index().Catalogue.NextID()
		if e, ok := w.parts[0].state.Index().Catalogue.Find(q.path); ok {
			id = e.ID // as it should not
		}
		for i := range w.o.split {
			away = away || w.parts[w.placement(id, i)].away
		}
	}
	w.stats.ChangesAway += int64(bit(away))
	return away
}

// placement is the log of a partition of an entity (log-format.md 8).
func (w *world) placement(id event.EntityID, number int) int {
	h := fnv.New32a()
	h.Write([]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id), byte(number)})
	return int(h.Sum32() % uint32(len(w.parts)))
}

// addSplit gives some queues and topics several partitions, in a quarter of the worlds.
func (o *options) addSplit(rng *rand.Rand) {
	if rng.IntN(4) != 0 || o.moves {
		return
	}
	o.split, o.partitions = 1+rng.IntN(16), 1+rng.IntN(4)
	o.fences = o.partitions > 1 && !o.damage && rng.IntN(2) == 0
	if o.refuses = o.partitions > 1 && !o.damage && rng.IntN(3) == 0; o.refuses || o.fences {
		o.actions[actRevive] = pick(rng, 1, 4)
	}
	if rng.IntN(2) == 0 {
		o.errors = true
		o.actions[actError] = pick(rng, 1, 2, 4)
	}
	o.keyless = rng.IntN(2) == 0
	o.operation[opSend] *= 2
	for i := range o.entities {
		if e := &o.entities[i]; e.kind != event.Subscription {
			e.props.EnablePartitioning = rng.IntN(5) != 0
		}
	}
}

// elsewhereOf has sends that a loop has not looked at go to another partition.
func (w *world) elsewhereOf(p *part) func([]engine.Request) []engine.Request {
	if w.o.split == 0 {
		return nil
	}
	return func(requests []engine.Request) (rest []engine.Request) {
		for _, req := range requests {
			send, ok := req.Command.(*engine.Send)
			if a := w.sends[req.Tag]; ok && a != nil && w.elsewhere(a, send) {
				w.submit(a)
				continue
			}
			rest = append(rest, req)
		}
		return rest
	}
}
