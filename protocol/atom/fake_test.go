package atom

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// fake is an engine's catalogue in memory: it refuses the same operations, with the same codes.
type fake struct {
	mu       sync.Mutex
	now      event.Time
	entities map[string]*engine.Entity // by lower-cased path
	rules    map[string][]event.Rule   // of a subscription
	runtimes map[string]engine.Runtime
	origins  []*engine.Origin
	whys     []event.ReasonGiven // as the origins
	fail     error               // of the next change
	panics   bool                // at the next Runtime
}

func newFake() *fake {
	return &fake{now: start, entities: map[string]*engine.Entity{}, rules: map[string][]event.Rule{}, runtimes: map[string]engine.Runtime{}}
}

func newRefusal(code engine.Code, format string, args ...any) *engine.Error {
	return &engine.Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// change is the first step of every change. The caller holds mu.
func (f *fake) change(o *engine.Origin, why event.ReasonGiven) error {
	f.now++
	if err := f.fail; err != nil {
		f.fail = nil
		return err
	}
	f.origins, f.whys = append(f.origins, o), append(f.whys, why)
	return nil
}

func (f *fake) PutEntity(_ context.Context, cmd engine.PutEntity) (*engine.Entity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(cmd.Origin, cmd.Why); err != nil {
		return nil, err
	}
	if faults := engine.CheckProperties(cmd.Kind, engine.Unbound, &cmd.Properties); len(faults) > 0 {
		return nil, newRefusal(faults[0].Code, "%s", faults[0].Text)
	}
	p := &cmd.Properties
	if cmd.Kind == event.Subscription && p.ForwardTo != "" { // as the engine does
		p.AutoDeleteOnIdle = event.Forever
	}
	key := strings.ToLower(cmd.Path)
	old := f.entities[key]
	switch {
	case old == nil && cmd.Mode == engine.UpdateOnly:
		return nil, newRefusal(engine.NotFound, "not there")
	case old != nil && cmd.Mode == engine.CreateOnly:
		return nil, newRefusal(engine.AlreadyExists, "there")
	case old == nil:
		return f.create(cmd, key)
	case old.Properties.RequiresSession != p.RequiresSession:
		return nil, newRefusal(engine.InvalidArgument, "The value for the RequiresSession property of an existing %s cannot be changed.", old.Kind)
	case old.Properties.RequiresDuplicateDetection != p.RequiresDuplicateDetection:
		return nil, newRefusal(engine.InvalidArgument, "The value for the RequiresDuplicateDetection property of an existing %s cannot be changed.", old.Kind)
	case old.Properties.EnablePartitioning != p.EnablePartitioning:
		return nil, newRefusal(engine.InvalidArgument, "Partitioning cannot be changed for %s. ", old.Kind)
	}
	e := *old
	e.Properties, e.UpdatedAt = *p, f.now
	f.entities[key] = &e
	return &e, nil
}

func (f *fake) create(cmd engine.PutEntity, key string) (*engine.Entity, error) {
	if err := engine.CheckPath(cmd.Kind, cmd.Path); err != nil {
		return nil, err
	}
	e := &engine.Entity{Kind: cmd.Kind, Path: key, Properties: cmd.Properties, CreatedAt: f.now, UpdatedAt: f.now}
	if cmd.Kind == event.Subscription {
		e.Path = cmd.Path
		topic := f.entities[strings.ToLower(e.TopicPath())]
		if topic == nil || topic.Kind != event.Topic {
			return nil, newRefusal(engine.NotFound, "no topic")
		}
		e.Path = engine.SubscriptionPath(topic.Path, e.Name())
		rules := cmd.Rules
		if rules == nil {
			rules = []event.Rule{{Name: "$Default", Filter: event.Filter{Kind: event.TrueFilter}}}
		}
		for i := range rules {
			if err := checkRule(&rules[i]); err != nil {
				return nil, err
			}
			rules[i].CreatedAt = f.now
		}
		f.rules[key] = slices.Clone(rules)
	}
	f.entities[key] = e
	return e, nil
}

func checkRule(r *event.Rule) error {
	switch {
	case strings.Contains(r.Filter.Text, "??"):
		return newRefusal(engine.InvalidArgument, "The filter cannot be read at character 3: ? is nothing.")
	case len(r.Filter.Text) > 1024 || len(r.Action.Text) > 1024:
		return newRefusal(engine.InvalidArgument, "too long")
	case r.Filter.Kind == event.CorrelationFilter && len(r.Filter.Conditions)+len(r.Filter.Properties) == 0:
		return newRefusal(engine.InvalidArgument, "no condition")
	}
	if err := engine.CheckName("Rule", r.Name); err != nil {
		return err
	}
	return nil
}

func (f *fake) DeleteEntity(_ context.Context, cmd engine.DeleteEntity) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(cmd.Origin, cmd.Why); err != nil {
		return err
	}
	key := strings.ToLower(cmd.Path)
	if f.entities[key] == nil {
		return newRefusal(engine.NotFound, "not there")
	}
	for k := range f.entities {
		if k == key || strings.HasPrefix(k, key+"/subscriptions/") {
			delete(f.entities, k)
			delete(f.rules, k)
		}
	}
	return nil
}

// rule finds a rule; the caller holds mu.
func (f *fake) rule(subscription, name string) (rules []event.Rule, at int, err error) {
	rules, ok := f.rules[strings.ToLower(subscription)]
	if !ok {
		return nil, -1, newRefusal(engine.NotFound, "no subscription")
	}
	return rules, slices.IndexFunc(rules, func(r event.Rule) bool { return strings.EqualFold(r.Name, name) }), nil
}

func (f *fake) PutRule(_ context.Context, cmd engine.PutRule) (event.Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(cmd.Origin, cmd.Why); err != nil {
		return event.Rule{}, err
	}
	rules, at, err := f.rule(cmd.Subscription, cmd.Rule.Name)
	if err == nil {
		err = checkRule(&cmd.Rule)
	}
	r := cmd.Rule
	r.CreatedAt = f.now
	switch {
	case err != nil:
		return r, err
	case at < 0 && cmd.Mode == engine.UpdateOnly:
		return r, newRefusal(engine.NotFound, "no rule")
	case at >= 0 && cmd.Mode == engine.CreateOnly:
		return r, newRefusal(engine.AlreadyExists, "there")
	case at >= 0:
		r.Name, r.CreatedAt = rules[at].Name, rules[at].CreatedAt
		rules[at] = r
	default:
		f.rules[strings.ToLower(cmd.Subscription)] = append(rules, r)
	}
	return r, nil
}

func (f *fake) DeleteRule(_ context.Context, cmd engine.DeleteRule) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(cmd.Origin, cmd.Why); err != nil {
		return err
	}
	rules, at, err := f.rule(cmd.Subscription, cmd.Name)
	if err != nil || at < 0 {
		return cmp.Or(err, error(newRefusal(engine.NotFound, "no rule")))
	}
	f.rules[strings.ToLower(cmd.Subscription)] = slices.Delete(slices.Clone(rules), at, at+1)
	return nil
}

func window[T any](all []T, skip, top int) []T {
	all = all[min(skip, len(all)):]
	return all[:min(top, len(all))]
}

func (f *fake) Rules(_ context.Context, subscription string, skip, top int) ([]event.Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rules, _, err := f.rule(subscription, "")
	rules = slices.Clone(rules)
	slices.SortFunc(rules, func(a, b event.Rule) int { return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return window(rules, skip, top), err
}

func (f *fake) Rule(_ context.Context, subscription, name string) (event.Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rules, at, err := f.rule(subscription, name)
	if err != nil || at < 0 {
		return event.Rule{}, cmp.Or(err, error(newRefusal(engine.NotFound, "no rule")))
	}
	return rules[at], nil
}

func (f *fake) Find(path string) (*engine.Entity, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.entities[strings.ToLower(path)]
	return e, ok
}

func (f *fake) List(kind event.EntityKind, topic string, skip, top int) []*engine.Entity {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*engine.Entity
	for _, e := range f.entities {
		if e.Kind == kind && (kind != event.Subscription || strings.EqualFold(e.TopicPath(), topic)) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *engine.Entity) int { return cmp.Compare(strings.ToLower(a.Path), strings.ToLower(b.Path)) })
	return window(all, skip, top)
}

func (f *fake) Runtime(_ context.Context, list []*engine.Entity) ([]engine.Runtime, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics {
		f.panics = false
		panic("a bug")
	}
	out := make([]engine.Runtime, len(list))
	for i, e := range list {
		out[i] = f.runtimes[strings.ToLower(e.Path)]
		if e.Kind != event.Topic {
			continue
		}
		for path, rules := range f.rules {
			if !strings.HasPrefix(path, strings.ToLower(e.Path)+"/subscriptions/") {
				continue
			}
			out[i].Subscriptions++
			for j := range rules {
				if rules[j].Filter.Kind == event.CorrelationFilter {
					out[i].CorrelationFilters++
				} else {
					out[i].SQLFilters++
				}
			}
		}
	}
	return out, nil
}
