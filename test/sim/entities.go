package sim

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// spec is an entity that clients want there to be.
type spec struct {
	kind  event.EntityKind
	path  string
	topic string // path of a subscription's topic
	props event.Properties
	rules []model.Rule // of a subscription; nil: the default one
}

// queue is a queue, topic or subscription of the simulation, from its creation to its end. One that
// is created again is another.
type queue struct {
	n     int
	kind  event.EntityKind
	path  string
	topic *queue // of a subscription
	whole *split // the entity that this is a partition of
	slice event.Slice
	host  *part
	model *model.Queue
	lines [model.TransferDeadQueue + 1]*line
	// a time before which nothing in it expires, as the index has it; 0: never
	soonest   int64
	entity    *engine.Entity // the version that clients see
	ended     bool           // deleted, as far as clients know
	forgotten bool           // … and where it lived, durably
	maxEver   uint32         // largest max delivery count there ever was
	lockEver  time.Duration
	leastSeen time.Duration // smallest window of the duplicate history there ever was
	// when somebody last asked it for something; after a start what was noted
	used  int64
	ruled int64 // when a rule was last changed, in this run
}

// setting is a change of an entity's settings or rules, or its deletion, decided by a record of
// partition 0.
type setting struct {
	record  int
	q       *queue
	props   event.Properties
	rules   []model.Rule
	deleted bool
	changed int64 // when the settings were
	noted   int64 // when it was last used, as the log has it
}

// found makes the data directory and the entities, before anything goes wrong.
func (w *world) found() {
	w.reopen(stopClean)
	for i := range w.o.entities {
		e := &w.o.entities[i]
		q := w.addQueue(e)
		a := w.put(q, e.props)
		a.give(e.rules)
		w.turn(w.parts[0], []*ask{a})
		w.settle(w.parts[0])
		if q.host == nil {
			w.broken("P14", "%s was created and nobody was told", q.path)
		}
		for _, site := range q.sites() {
			asks := site.host.inbox // to put it in force
			site.host.inbox = nil
			w.turn(site.host, asks)
			w.settle(site.host)
		}
		if q.entity == nil {
			w.broken("P14", "%s was created and is not in force", q.path)
		}
	}
}

// addQueue adds an entity that is about to be created.
func (w *world) addQueue(e *spec) *queue {
	q := &queue{n: len(w.queues), kind: e.kind, path: e.path}
	if e.topic != "" {
		q.topic = w.named(e.topic)
	}
	q.whole = &split{parts: []*queue{q}, model: &model.Partitioned{}}
	w.queues = append(w.queues, q)
	return q
}

// named is the entity that has a path, or had it last.
func (w *world) named(path string) (q *queue) {
	for _, o := range w.queues {
		if o.path == path && o.first() {
			q = o
		}
	}
	return q
}

// placed gives an entity that was created its place, as the catalogue has it.
func (w *world) placed(q *queue, x *index.Index) {
	e, ok := x.Catalogue.Find(q.path)
	if !ok || e.Kind != q.kind {
		w.broken("P14", "%s is not in the catalogue after it was created", q.path)
	}
	for _, o := range w.queues {
		if o.whole != q.whole && o.host != nil && o.slice.Entity >= e.ID {
			w.broken("I23", "%s has the id %d, %s had %d before", q.path, e.ID, o.path, o.slice.Entity)
		}
	}
	props, _ := w.decided(q)
	w.spread(q, e.ID, e.Hosts)
	for i, part := range q.whole.parts {
		part.slice, part.host = event.Slice{Entity: e.ID, Partition: uint8(i)}, w.parts[e.Hosts[i]]
		var topic *model.Queue
		if part.topic != nil {
			if topic = part.topic.model; e.Topic != q.topic.slice.Entity || part.host != part.topic.host {
				w.broken("P14", "%s is one of entity %d on partition %d; it must be of %d on %d", q.path, e.Topic, part.host.id, q.topic.slice.Entity, part.topic.host.id)
			}
		}
		part.model = part.host.model.Add(part.n, part.settings(props), model.First(i), topic)
		part.leastSeen = props.DuplicateDetectionWindow
		q.whole.model.Queues[i] = part.model
	}
	q.whole.model.Duplicates = props.RequiresDuplicateDetection
}

// settings is what the model needs to know of an entity.
func settings(kind event.EntityKind, p event.Properties) model.Settings {
	s := model.Settings{
		Lock: lockOf(kind, &p).Milliseconds(), MaxDelivery: p.MaxDeliveryCount, DeadLetterExpired: p.DeadLetteringOnMessageExpiration,
		NoSend:     p.Status == event.Disabled || p.Status == event.SendDisabled,
		NoReceive:  p.Status == event.Disabled || p.Status == event.ReceiveDisabled,
		MaxMessage: int64(p.MaxMessageSizeKilobytes) << 10, MaxBytes: int64(p.MaxSizeMegabytes) << 20,
		Topic: kind == event.Topic, DeadLetterErrors: p.DeadLetteringOnFilterError, FilterFirst: p.FilteringBeforePublishing,
	}
	// what moves on has the time that its sender gave it
	if p.DefaultMessageTimeToLive != event.Forever && p.ForwardTo == "" {
		s.TTL = p.DefaultMessageTimeToLive.Milliseconds()
	}
	if s.Sessions = p.RequiresSession; p.RequiresDuplicateDetection {
		s.Window = p.DuplicateDetectionWindow.Milliseconds()
	}
	return s
}

// lockOf is how long messages of an entity are locked. A topic, of which only the transfer
// dead-letter queue has receivers, has no such setting.
func lockOf(kind event.EntityKind, p *event.Properties) time.Duration {
	if kind == event.Topic {
		return time.Minute
	}
	return p.LockDuration
}

// version is an entity in the form that clients and partitions are given, as of the newest decision
// about it.
func (w *world) version(q *queue, before *engine.Entity) *engine.Entity {
	entry, ok := w.parts[0].state.Index().Catalogue.Get(q.slice.Entity)
	s, _ := w.newestSetting(q)
	if !ok || !entry.Properties.Equal(&s.props) || int64(entry.UpdatedAt) != s.changed || int64(entry.AccessedAt) != s.noted {
		w.broken("P14", "%s in the catalogue: found %v, %+v; it must be %+v", q.path, ok, entry, s)
	}
	return engine.View(entry, before)
}

// inForce tells the model that settings and rules have come into force where the entity lives.
func (q *queue) inForce(props event.Properties, rules []model.Rule) {
	q.maxEver, q.lockEver = max(q.maxEver, props.MaxDeliveryCount), max(q.lockEver, lockOf(q.kind, &props))
	q.leastSeen = min(q.leastSeen, props.DuplicateDetectionWindow)
	q.model.Settings, q.model.Rules, q.model.InForce = q.settings(props), rules, true
}

// configureAll puts everything in the catalogue in force, as a start does.
func (w *world) configureAll() {
	for _, q := range w.queues {
		if q.model != nil {
			q.model.InForce = false
		}
	}
	for _, q := range w.queues {
		s, exists := w.newestSetting(q)
		if !exists || !q.first() {
			continue
		}
		q.now(w.version(q, nil))
		q.used, q.ruled = s.noted, 0
		for _, part := range q.whole.parts {
			w.configure(part, s)
		}
		q.whole.model.Restarted()
	}
}

// configure puts settings and rules in force where an entity lives, unless that is refused.
func (w *world) configure(q *queue, s setting) {
	if q.inForce(s.props, s.rules); q.away() || q != q.site() {
		return
	}
	q.host.state.Configure(q.entity)
	if q.kind == event.Subscription {
		if err := q.host.state.ConfigureRules(q.entity, rulesOf(s.rules)); err != nil {
			w.broken("P14", "%s: %v", q.path, err)
		}
	}
}

// newestSetting is the newest decision about an entity, in force or not; false when it does not
// exist by then.
func (w *world) newestSetting(q *queue) (setting, bool) {
	for i := len(w.catalogue) - 1; i >= 0; i-- {
		if s := &w.catalogue[i]; s.q == q.whole.parts[0] {
			return *s, !s.deleted
		}
	}
	return setting{}, false
}

// decided is an entity's settings by the newest decision.
func (w *world) decided(q *queue) (event.Properties, bool) {
	s, exists := w.newestSetting(q)
	return s.props, exists
}

// subscriptionsOf are the subscriptions of a topic that exist by the newest decision.
func (w *world) subscriptionsOf(t *queue) (subs []*queue) {
	for _, q := range w.queues {
		if q.topic != t {
			continue
		}
		if _, exists := w.decided(q); exists {
			subs = append(subs, q)
		}
	}
	return subs
}

// living are the entities that clients believe to exist.
func (w *world) living() (qs []*queue) {
	for _, q := range w.queues {
		if q.entity != nil && !q.ended && q.first() {
			qs = append(qs, q)
		}
	}
	return qs
}

// catalogued compares the catalogue that was recovered with what was decided, and brings the
// entities in line with it.
func (w *world) catalogued(x *index.Index) {
	if i := len(w.queues) - 1; i >= 0 {
		q := w.queues[i].whole.parts[0]
		switch _, exists := w.decided(q); {
		case exists && q.host == nil:
			w.placed(q, x)
		case !slices.ContainsFunc(w.catalogue, func(s setting) bool { return s.q == q }):
			w.neverWas(q)
		}
	}
	n := 0
	for _, q := range w.queues {
		props, exists := w.decided(q)
		if q.ended = !exists; !exists || !q.first() {
			continue
		}
		n++
		e, ok := x.Catalogue.Find(strings.ToUpper(q.path))
		if !ok || e.ID != q.slice.Entity || !e.Properties.Equal(&props) {
			w.broken("P14", "%s in the catalogue after the start: found %v, %+v, it must be %+v", q.path, ok, e.Properties, props)
		}
	}
	if len(x.Catalogue.All()) != n {
		w.broken("I23", "there are %d entities after the start, there must be %d", len(x.Catalogue.All()), n)
	}
	w.ruled(x)
}

// neverWas forgets the newest entity, whose creation is lost. An earlier start may have found it,
// and died before that was durable.
func (w *world) neverWas(q *queue) {
	w.queues = w.queues[:q.n]
	for _, part := range q.whole.parts {
		same := func(o *model.Queue) bool { return o == part.model }
		if part.host != nil {
			part.host.model.Queues = slices.DeleteFunc(part.host.model.Queues, same)
		}
		if part.topic != nil && part.topic.model != nil {
			part.topic.model.Subscriptions = slices.DeleteFunc(part.topic.model.Subscriptions, same)
		}
	}
}

// ruled compares the rules in the catalogue (SM-290), and its counters of topics.
func (w *world) ruled(x *index.Index) {
	sql, correlation := map[*queue]int{}, map[*queue]int{}
	for _, q := range w.queues {
		s, exists := w.newestSetting(q)
		if q.kind != event.Subscription || !exists || !q.first() {
			continue
		}
		must := rulesOf(s.rules)
		for _, r := range must {
			if r.Filter.Kind == event.CorrelationFilter {
				correlation[q.topic]++
			} else {
				sql[q.topic]++
			}
		}
		if q.host == nil {
			continue // nobody was told its id yet
		}
		got := x.Catalogue.Rules(q.slice.Entity)
		if !slices.EqualFunc(got, must, sameRule) {
			w.broken("P14", "%s has %d rules %v, it must have %+v", q.path, len(got), got, must)
		}
	}
	for _, q := range w.queues {
		if _, exists := w.decided(q); q.kind != event.Topic || !exists || q.host == nil || !q.first() {
			continue
		}
		n, m := x.Catalogue.Filters(q.slice.Entity)
		got, must := [3]int{x.Catalogue.SubscriptionCount(q.slice.Entity), n, m}, [3]int{len(w.subscriptionsOf(q)), sql[q], correlation[q]}
		if got != must {
			w.broken("I22", "%s has so many subscriptions, SQL and correlation filters: %v, it must have %v", q.path, got, must)
		}
	}
}

// sameRule compares two rules but for the time at which they were made.
func sameRule(a *event.Rule, b event.Rule) bool {
	return a.Name == b.Name && a.Filter.Kind == b.Filter.Kind && a.Filter.Text == b.Filter.Text && a.Action.Text == b.Action.Text &&
		slices.Equal(a.Filter.Conditions, b.Filter.Conditions) && slices.Equal(a.Filter.Properties, b.Filter.Properties)
}

// books compares what the management plane is told of the entities of a partition (16.2).
func (w *world) books(p *part) {
	for _, mq := range p.model.Queues {
		q := w.queues[mq.ID]
		must := runtimeOf(mq.Counts())
		if got := p.state.Runtimes([]event.Slice{q.slice}); !reflect.DeepEqual(got, []engine.Runtime{must}) {
			w.broken("I22", "%s holds %+v, it must hold %+v", q.path, got[0], must)
		}
	}
}
