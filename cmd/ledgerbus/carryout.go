package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

// rulesOfField is the prefix of the fields that are rules of a subscription.
const rulesOfField = "Rules."

// checkChanges returns an error if a change is impossible, before any change is made.
func (p *plan) checkChanges() error {
	var names []string
	for _, c := range p.changes {
		if c.Action == settings.Update && slices.ContainsFunc(c.Fields, func(f settings.Field) bool { return f.Fixed }) {
			names = append(names, c.Entity.Path)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("nothing was done: the file changes properties of %s that cannot change after creation; delete it first", strings.Join(names, ", "))
	}
	return nil
}

// losses describes the data that the plan deletes; "" means none.
func (p *plan) losses(a *administration) string {
	var gone []*admin.Entity
	rules := 0
	for _, c := range p.changes {
		if c.Action == settings.Delete {
			gone = append(gone, p.there.byPath[strings.ToLower(c.Entity.Path)])
		}
		for _, f := range c.Fields {
			if c.Action == settings.Update && strings.HasPrefix(f.Name, rulesOfField) && f.New == "" {
				rules++
			}
		}
	}
	var parts []string
	if len(gone) > 0 {
		what := "1 entity"
		if len(gone) > 1 {
			what = fmt.Sprintf("%d entities", len(gone))
		}
		parts = append(parts, what+" with "+messageCounts(gone))
	}
	if rules > 0 {
		parts = append(parts, plural(rules, "rule")+" of subscriptions that remain")
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("at %s this deletes %s", a.Hostname(), strings.Join(parts, " and "))
}

// carryOut makes the changes and stops at the first failure. Applying the file again continues from
// there.
func (p *plan) carryOut(a *administration) error {
	bar := newEntityProgress(len(p.changes), "applying")
	defer bar.finish()
	var later []*admin.Entity // entities that forward to an entity that does not exist yet
	for i, c := range p.changes {
		postponed, err := p.change(a, c)
		if err != nil {
			return p.stopError(i, err)
		}
		if postponed != nil {
			later = append(later, postponed)
		}
		bar.add(1)
	}
	for _, e := range later {
		if _, err := a.Update(a.ctx, e); err != nil {
			return p.stopError(len(p.changes), err)
		}
	}
	return nil
}

func (p *plan) stopError(after int, err error) error {
	return fmt.Errorf("after %d of %s: %w", after, plural(len(p.changes), "change"), err)
}

// change makes one change. If the entity forwards to an entity that is created later, change
// returns it for a later update.
func (p *plan) change(a *administration, c settings.Change) (postponed *admin.Entity, err error) {
	path := strings.ToLower(c.Entity.Path)
	switch c.Action {
	case settings.Delete:
		// The topic of a subscription may have been deleted before, and another client may have
		// deleted the entity.
		if err := a.Delete(a.ctx, c.Entity.Kind, c.Entity.Path); err != nil && !admin.IsNotFound(err) {
			return nil, err
		}
		return nil, nil
	case settings.Update:
		e := *p.there.byPath[path]
		e.Properties = c.Entity.Properties
		e.Present |= elementsOf(c.Fields)
		if onlyRules(c.Fields) {
			return nil, a.changeRules(&c)
		}
		if _, rest := p.forwardable(e); rest != nil {
			return rest, a.changeRules(&c)
		}
		if _, err := a.Update(a.ctx, &e); err != nil {
			return nil, err
		}
		return nil, a.changeRules(&c)
	}
	e := admin.NewEntity(c.Entity.Kind, c.Entity.Path)
	e.Properties, e.Present = c.Entity.Properties, elementsOf(c.Fields)
	now, rest := p.forwardable(*e)
	made, err := a.createWithRules(now, &c.Entity)
	if err != nil {
		return nil, err
	}
	p.there.byPath[path] = made
	if rest != nil {
		rest.Present |= made.Present // other properties stay as the broker set them
		properties := made.Properties
		properties.ForwardTo, properties.ForwardDeadLetteredMessagesTo = rest.Properties.ForwardTo, rest.Properties.ForwardDeadLetteredMessagesTo
		properties.AccessRules = rest.Properties.AccessRules
		rest.Properties = properties
	}
	return rest, nil
}

// elementsOf returns the elements of a document for fields. Their names are the same.
func elementsOf(fields []settings.Field) (present document.Elements) {
	for _, f := range fields {
		name, _, _ := strings.Cut(f.Name, ".")
		for e := document.LockDuration; e <= document.IsClientAffine; e++ {
			if e.String() == name {
				present.Add(e)
			}
		}
	}
	return present
}

func onlyRules(fields []settings.Field) bool {
	return !slices.ContainsFunc(fields, func(f settings.Field) bool { return !strings.HasPrefix(f.Name, rulesOfField) })
}

// forwardable returns the entity to create now, without forwarding to entities that do not exist,
// and the complete entity for later. later is nil if the two are the same.
func (p *plan) forwardable(e admin.Entity) (now, later *admin.Entity) {
	whole := e
	for _, f := range [...]*string{&e.Properties.ForwardTo, &e.Properties.ForwardDeadLetteredMessagesTo} {
		if *f != "" && p.there.byPath[strings.ToLower(*f)] == nil {
			*f, later = "", &whole
		}
	}
	return &e, later
}

// createWithRules creates an entity. A subscription with listed rules gets exactly these rules.
func (a *administration) createWithRules(e *admin.Entity, want *engine.PutEntity) (*admin.Entity, error) {
	if len(want.Rules) > 0 {
		e.SetDefaultRule(want.Rules[0])
	}
	made, err := a.Create(a.ctx, e)
	if err != nil || want.Kind != event.Subscription {
		return made, err
	}
	for i := range want.Rules {
		if i == 0 {
			continue
		}
		if _, err := a.CreateRule(a.ctx, e.Path, want.Rules[i]); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// changeRules changes the rules of a subscription to the wanted ones. It deletes unwanted rules
// last: meanwhile more messages match, not fewer.
func (a *administration) changeRules(c *settings.Change) error {
	var gone []string
	for _, f := range c.Fields {
		name, isRule := strings.CutPrefix(f.Name, rulesOfField)
		if !isRule {
			continue
		}
		if f.New == "" {
			gone = append(gone, name)
			continue
		}
		i := slices.IndexFunc(c.Entity.Rules, func(r event.Rule) bool { return strings.EqualFold(r.Name, name) })
		if i < 0 {
			return errors.New("the rule " + name + " to be made is not in the file")
		}
		var err error
		if f.Old == "" {
			_, err = a.CreateRule(a.ctx, c.Entity.Path, c.Entity.Rules[i])
		} else {
			_, err = a.UpdateRule(a.ctx, c.Entity.Path, c.Entity.Rules[i])
		}
		if err != nil {
			return err
		}
	}
	for _, name := range gone {
		if err := a.DeleteRule(a.ctx, c.Entity.Path, name); err != nil && !admin.IsNotFound(err) {
			return err
		}
	}
	return nil
}
