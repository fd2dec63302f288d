package host

import (
	"maps"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// targetOf returns the lower-cased path that a property names.
func targetOf(property string) string { return strings.ToLower(engine.ForwardPath(property)) }

// forwards reports whether messages of an entity move to others.
func forwards(e *engine.Entity) bool {
	return e.Properties.ForwardTo != "" || e.Properties.ForwardDeadLetteredMessagesTo != ""
}

// routes finds the entities that forward their messages to a path.
type routes struct {
	from map[string]map[event.EntityID]*engine.Entity // by lower-cased path of the target
}

// put replaces a version of an entity by the next one. Either may be nil.
func (r *routes) put(old, e *engine.Entity) {
	if old != nil {
		for _, to := range forwardTargets(old) {
			if delete(r.from[to], old.ID); len(r.from[to]) == 0 {
				delete(r.from, to)
			}
		}
	}
	if e == nil {
		return
	}
	for _, to := range forwardTargets(e) {
		if r.from == nil {
			r.from = map[string]map[event.EntityID]*engine.Entity{}
		}
		if r.from[to] == nil {
			r.from[to] = map[event.EntityID]*engine.Entity{}
		}
		r.from[to][e.ID] = e
	}
}

// sourcesOf returns the entities that forward to a path, sorted by id.
func (r *routes) sourcesOf(lower string) []*engine.Entity {
	all := slices.Collect(maps.Values(r.from[lower]))
	slices.SortFunc(all, func(a, b *engine.Entity) int { return int(int64(a.ID) - int64(b.ID)) })
	return all
}

// forwardTargets returns the lower-cased paths to which an entity forwards messages.
func forwardTargets(e *engine.Entity) (paths []string) {
	for _, property := range [...]string{e.Properties.ForwardTo, e.Properties.ForwardDeadLetteredMessagesTo} {
		if property != "" {
			paths = append(paths, targetOf(property))
		}
	}
	return paths
}
