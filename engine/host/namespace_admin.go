package host

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A change of the catalogue is decided and made durable on partition 0. It is then put in force on
// the partitions that host the entity, and only then shown and answered. If the process dies in
// between, the next start puts it in force. Changes run one after the other under mu.

const (
	// maxManaged bounds the commands of [admin.Manage] that may wait.
	maxManaged = 256
	// manageTimeout bounds one command: a partition that has not answered by then counts as absent.
	manageTimeout = time.Minute
)

// admin changes and reads the catalogue of a namespace. It implements [engine.Admin].
type admin struct {
	historyPolicies
	// set once in Open
	partitions *partitions
	directory  *directory
	store      capabilityStore
	// before this start, a version that moves messages ran here and had an entity that forwards
	moved    bool
	watchers *watchers
	now      func() event.Time
	manage   chan engine.Request // commands whose callers do not wait
	managed  chan struct{}       // closed when the last command is done

	mu     sync.Mutex // serialises changes, and guards routes
	routes routes
}

// begin takes mu and returns the context for a change. The change is completed even if the caller
// has gone. Otherwise a durable change that is not in force would show in some places but not in
// others until the next start.
func (a *admin) begin(ctx context.Context) (context.Context, error) {
	a.mu.Lock()
	err := ctx.Err()
	if err != nil {
		a.mu.Unlock()
		return nil, err
	}
	return context.WithoutCancel(ctx), nil
}

// configureAll puts all entities and rules of the catalogue in force, before the loops run.
func (a *admin) configureAll(c *index.Catalogue) {
	a.historyPolicies.now.Store(c.History())
	for _, e := range c.All() {
		v := engine.View(e, nil)
		a.directory.put(v)
		var rules []event.Rule
		for _, r := range c.Rules(e.ID) {
			rules = append(rules, *r)
		}
		for _, h := range hostsOf(v) {
			if l := a.partitions.loop(h); l != nil {
				l.Prepare(loop.Configure(v, v.Kind == event.Subscription, rules))
			}
		}
	}
}

// PutEntity implements [engine.Admin].
func (a *admin) PutEntity(ctx context.Context, cmd engine.PutEntity) (*engine.Entity, error) {
	entities, errs := a.PutEntities(ctx, []engine.PutEntity{cmd})
	return entities[0], errs[0]
}

// maxAsked bounds how many entities are put at a time, because loops and mailboxes keep the memory
// of the answers.
const maxAsked = 1 << 10

// PutEntities is PutEntity for many entities at once. It returns an entity or an error for each
// command. A refused command does not stop the others.
func (a *admin) PutEntities(ctx context.Context, cmds []engine.PutEntity) ([]*engine.Entity, []error) {
	entities, errs := make([]*engine.Entity, len(cmds)), make([]error, len(cmds))
	ctx, err := a.begin(ctx)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return entities, errs
	}
	defer a.mu.Unlock()
	for from := 0; from < len(cmds); from += maxAsked {
		to := min(from+maxAsked, len(cmds))
		if err := a.putEntities(ctx, cmds[from:to], entities[from:to], errs[from:to]); err != nil {
			for i := from; i < len(cmds); i++ {
				if errs[i] == nil {
					entities[i], errs[i] = nil, err
				}
			}
			break
		}
	}
	return entities, errs
}

// putEntities fills in the entity or the error of each command. If it returns an error, that error
// holds for every command that has none. The caller holds mu.
func (a *admin) putEntities(ctx context.Context, cmds []engine.PutEntity, entities []*engine.Entity, errs []error) error {
	asks, ruled := make([]engine.Command, 0, 2*len(cmds)), make([]bool, len(cmds))
	for i := range cmds {
		ruled[i] = cmds[i].Kind == event.Subscription && (cmds[i].OnlyRules || a.directory.find(strings.ToLower(cmds[i].Path)) == nil)
		asks = append(asks, &cmds[i], lookup(cmds[i].Path, ruled[i]))
	}
	replies, err := a.partitions.askAll(ctx, 0, asks)
	if err != nil {
		return err
	}
	inForce := make(map[engine.PartitionID][]engine.Command)
	for i := range cmds {
		put, look := &replies[2*i], &replies[2*i+1]
		if err := cmp.Or(put.Err, look.Err); err != nil {
			errs[i] = fmt.Errorf("engine: %s %q: %w", strings.ToLower(cmds[i].Kind.String()), cmds[i].Path, err)
			continue
		}
		found := look.Answer.(*foundEntity)
		e, same := a.version(found.entity)
		if entities[i] = e; same && !ruled[i] {
			continue // in force already
		}
		for _, h := range hostsOf(e) {
			inForce[h] = append(inForce[h], loop.Configure(e, ruled[i], found.rules))
		}
	}
	for h, configures := range inForce {
		if a.partitions.absent(h) {
			continue
		}
		if _, err := a.partitions.askAll(ctx, h, configures); err != nil {
			return err
		}
	}
	if err := a.useMoves(entities); err != nil {
		return err
	}
	var made, own []*engine.Entity
	for _, e := range entities {
		if e == nil {
			continue
		}
		old := a.directory.put(e)
		if a.routes.put(old, e); old != e {
			made = append(made, e)
		}
		if forwards(e) || old != nil && forwards(old) {
			own = append(own, e)
		}
		if old != nil && needsReattach(old.Properties, e.Properties) {
			// else links and session locks stay, because nothing has changed for them
			a.watchers.tell(engine.Change{Entity: old})
		}
	}
	return a.reorder(ctx, made, own)
}

// needsReattach reports whether links have to attach again after a change of an entity's settings.
// The duplicate detection window has no meaning while duplicate detection is off: .NET omits it
// then, which sets it to its default.
func needsReattach(old, now event.Properties) bool {
	if !now.RequiresDuplicateDetection {
		now.DuplicateDetectionWindow = old.DuplicateDetectionWindow
	}
	return !engine.SameSettings(&old, &now)
}

// version returns the view of an entity of the catalogue, and whether it is the known one because
// nothing has changed. A new view shares its usage data with the old one.
func (a *admin) version(e *engine.Entity) (*engine.Entity, bool) {
	old := a.directory.find(strings.ToLower(e.Path))
	switch {
	case old == nil:
		return e, false
	case old.UpdatedAt == e.UpdatedAt && old.Properties.Equal(&e.Properties):
		return old, true
	}
	e.Succeed(old)
	return e, false
}

// DeleteEntity implements [engine.Admin].
func (a *admin) DeleteEntity(ctx context.Context, cmd engine.DeleteEntity) error {
	ctx, err := a.begin(ctx)
	if err != nil {
		return err
	}
	defer a.mu.Unlock()
	return a.delete(ctx, cmd)
}

// delete is DeleteEntity for a caller that holds mu.
func (a *admin) delete(ctx context.Context, cmd engine.DeleteEntity) error {
	if _, err := a.partitions.ask(ctx, 0, &cmd); err != nil {
		return fmt.Errorf("engine: %q: %w", cmd.Path, err)
	}
	old := a.directory.find(strings.ToLower(cmd.Path))
	gone := append(a.directory.subscriptions(old), old) // the topic after its subscriptions
	if old.Kind == event.Subscription {
		a.directory.entity(old.Topic).Use(old.LastUse()) // the topic keeps the time of this use
	}
	for _, e := range gone {
		a.directory.remove(e)
		a.routes.put(e, nil)
	}
	drops := make(map[engine.PartitionID][]engine.Command)
	for _, e := range gone {
		a.watchers.tell(engine.Change{Entity: e, Deleted: true})
		for i, h := range e.Hosts {
			drops[h] = append(drops[h], loop.DropSlice(event.Slice{Entity: e.ID, Partition: uint8(i)}))
		}
	}
	for h, cmds := range drops {
		if a.partitions.absent(h) {
			continue // it forgets the slices at its restart
		}
		if _, err := a.partitions.askAll(ctx, h, cmds); err != nil {
			return err
		}
	}
	return a.reorder(ctx, gone, nil)
}

// PutRule implements [engine.Admin].
func (a *admin) PutRule(ctx context.Context, cmd engine.PutRule) (event.Rule, error) {
	ctx, err := a.begin(ctx)
	if err != nil {
		return event.Rule{}, err
	}
	defer a.mu.Unlock()
	sub, err := a.changeRules(ctx, cmd.Subscription, &cmd)
	if err != nil {
		return event.Rule{}, err
	}
	r, err := a.Rule(ctx, cmd.Subscription, cmd.Rule.Name)
	if err != nil {
		return r, err
	}
	return r, a.enforce(ctx, sub, loop.ConfigureRule(sub, &r, ""))
}

// DeleteRule implements [engine.Admin].
func (a *admin) DeleteRule(ctx context.Context, cmd engine.DeleteRule) error {
	ctx, err := a.begin(ctx)
	if err != nil {
		return err
	}
	defer a.mu.Unlock()
	sub, err := a.changeRules(ctx, cmd.Subscription, &cmd)
	if err != nil {
		return err
	}
	return a.enforce(ctx, sub, loop.ConfigureRule(sub, nil, cmd.Name))
}

// changeRules makes a change of a subscription's rules durable. The caller holds mu.
func (a *admin) changeRules(ctx context.Context, path string, cmd engine.Command) (*engine.Entity, error) {
	if _, err := a.partitions.ask(ctx, 0, cmd); err != nil {
		return nil, err
	}
	sub := a.directory.find(strings.ToLower(path))
	sub.Ruled(a.now()) // a new rule keeps a subscription (semantics.md 7.7)
	return sub, nil
}

func (a *admin) enforce(ctx context.Context, sub *engine.Entity, cmd engine.Command) error {
	for _, h := range hostsOf(sub) {
		// an absent partition learns of it when it is back
		if _, err := a.partitions.askAll(ctx, h, []engine.Command{cmd}); err != nil {
			return err
		}
	}
	return nil
}

// Rules implements [engine.Admin].
func (a *admin) Rules(ctx context.Context, subscription string, skip, top int) ([]event.Rule, error) {
	reply, err := a.partitions.ask(ctx, 0, &engine.ListRules{Subscription: subscription, Skip: skip, Top: top})
	return reply.Rules(), err
}

// Rule implements [engine.Admin].
func (a *admin) Rule(ctx context.Context, subscription, name string) (event.Rule, error) {
	reply, err := a.partitions.ask(ctx, 0, &engine.ListRules{Subscription: subscription, Name: name})
	if err != nil {
		return event.Rule{}, err
	}
	return reply.Rules()[0], nil
}

// Find implements [engine.Admin].
func (a *admin) Find(path string) (*engine.Entity, bool) {
	e := a.directory.find(strings.ToLower(path))
	return e, e != nil
}

// List implements [engine.Admin].
func (a *admin) List(kind event.EntityKind, topic string, skip, top int) (page []*engine.Entity) {
	all := a.directory.sorted()
	prefix := ""
	if kind == event.Subscription {
		prefix = strings.ToLower(engine.SubscriptionPath(topic, ""))
		from, _ := slices.BinarySearchFunc(all, prefix, func(e *engine.Entity, prefix string) int {
			return cmp.Compare(strings.ToLower(e.Path), prefix)
		})
		all = all[from:]
	}
	for _, e := range all {
		if len(page) >= top || prefix != "" && !strings.HasPrefix(strings.ToLower(e.Path), prefix) {
			break
		}
		if e.Kind != kind {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		page = append(page, e)
	}
	return page
}

// Runtime implements [engine.Admin].
func (a *admin) Runtime(ctx context.Context, entities []*engine.Entity) ([]engine.Runtime, error) {
	all := make([]engine.Runtime, len(entities))
	type part struct {
		slices []event.Slice
		of     []int
	}
	answered := make([]bool, len(entities))
	hosts := map[engine.PartitionID]*part{}
	for i, e := range entities {
		all[i].AccessedAt = a.lastUse(e)
		for number, h := range e.Hosts {
			if hosts[h] == nil {
				hosts[h] = &part{}
			}
			hosts[h].slices = append(hosts[h].slices, event.Slice{Entity: e.ID, Partition: uint8(number)})
			hosts[h].of = append(hosts[h].of, i)
		}
	}
	for h, p := range hosts {
		reply, err := a.partitions.ask(ctx, h, loop.Do(func(at *engine.Partition) engine.Reply {
			return engine.Reply{Answer: runtimes{of: at.Runtimes(p.slices)}}
		}))
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		if err != nil { // the partition does not serve
			for _, i := range p.of {
				all[i].Limited = true
			}
			continue
		}
		for i, r := range reply.Answer.(runtimes).of {
			sum := &all[p.of[i]]
			answered[p.of[i]] = true
			sum.Active, sum.DeadLetter, sum.Scheduled = sum.Active+r.Active, sum.DeadLetter+r.DeadLetter, sum.Scheduled+r.Scheduled
			sum.Transfer, sum.TransferDeadLetter = sum.Transfer+r.Transfer, sum.TransferDeadLetter+r.TransferDeadLetter
			sum.SizeBytes += r.SizeBytes
		}
	}
	reply, err := a.partitions.ask(ctx, 0, loop.Do(func(p *engine.Partition) engine.Reply {
		return engine.Reply{Answer: runtimes{of: p.Belongings(entities)}}
	}))
	if err != nil {
		return nil, err
	}
	for i, r := range reply.Answer.(runtimes).of {
		if !answered[i] {
			all[i].Unknown, all[i].Limited = true, false
		}
		all[i].Subscriptions, all[i].SQLFilters, all[i].CorrelationFilters = r.Subscriptions, r.SQLFilters, r.CorrelationFilters
	}
	return all, nil
}

// lastUse returns when an entity was last used. Using a subscription uses its topic
// (docs/decisions/0010).
func (a *admin) lastUse(e *engine.Entity) event.Time {
	at := e.LastUse()
	if e.Kind == event.Topic {
		for _, sub := range a.List(event.Subscription, e.Path, 0, math.MaxInt) {
			at = max(at, sub.LastUse())
		}
	}
	return at
}

// runtimes holds the runtime data of slices or entities, in the order of the request.
type runtimes struct {
	engine.Internal
	of []engine.Runtime
}

// lookup returns the command that asks the catalogue for an entity and, if ruled, for its rules.
func lookup(path string, ruled bool) engine.Command {
	return loop.Do(func(p *engine.Partition) engine.Reply {
		c := &p.Index().Catalogue
		e, ok := c.Find(path)
		if !ok {
			return engine.Reply{Err: engine.NoEntity(path)}
		}
		found := &foundEntity{entity: engine.View(e, nil)}
		if ruled {
			for _, r := range c.Rules(e.ID) {
				found.rules = append(found.rules, *r)
			}
		}
		return engine.Reply{Answer: found}
	})
}

// foundEntity is the answer to a lookup.
type foundEntity struct {
	engine.Internal
	entity *engine.Entity
	rules  []event.Rule // if they were asked for
}

// Manage implements [engine.Broker].
func (a *admin) Manage(req engine.Request) {
	select {
	case a.manage <- req:
	default:
		loop.TurnAway([]engine.Request{req}, engine.Refuse(engine.Busy, "Too many changes of rules are waiting."))
	}
}

// serveManaged carries out the commands of Manage, in order, until stop is closed.
func (a *admin) serveManaged(stop <-chan struct{}) {
	defer close(a.managed)
	for {
		select {
		case req := <-a.manage:
			reply := a.carryOut(req.Command)
			if reply.Tag = req.Tag; req.Sink != nil {
				req.Sink.Post([]engine.Reply{reply})
			}
		case <-stop:
			for {
				select {
				case req := <-a.manage:
					loop.TurnAway([]engine.Request{req}, engine.ErrUnknown)
				default:
					return
				}
			}
		}
	}
}

func (a *admin) carryOut(cmd engine.Command) (reply engine.Reply) {
	ctx, cancel := context.WithTimeout(context.Background(), manageTimeout)
	defer cancel()
	switch cmd := cmd.(type) {
	case *engine.PutRule:
		_, reply.Err = a.PutRule(ctx, *cmd)
	case *engine.DeleteRule:
		reply.Err = a.DeleteRule(ctx, *cmd)
	case *engine.ListRules:
		rules, err := a.Rules(ctx, cmd.Subscription, cmd.Skip, cmd.Top)
		if reply.Err = err; err == nil {
			reply.Answer = engine.Rules(rules)
		}
	default:
		panic(fmt.Sprintf("engine: the catalogue cannot carry out %T", cmd))
	}
	return reply
}
