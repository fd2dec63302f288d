package host

import (
	"maps"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// targetOf is the lower-cased path that a property names.
func targetOf(property string) string { return strings.ToLower(engine.ForwardPath(property)) }

// forwards reports whether messages of an entity go to others.
func forwards(e *engine.Entity) bool {
	return e.Properties.ForwardTo != "" || e.Properties.ForwardDeadLetteredMessagesTo != ""
}

// routes knows which entities forward their messages to which paths.
type routes struct {
	from map[string]map[event.EntityID]*engine.Entity // by lower-cased path of where they go
}

// put enters a version of an entity instead of the one before. Either may be nil.
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

// sourcesOf is the entities whose messages go to a path, by id.
func (r *routes) sourcesOf(lower string) []*engine.Entity {
	all := slices.Collect(maps.Values(r.from[lower]))
	slices.SortFunc(all, func(a, b *engine.Entity) int { return int(int64(a.ID) - int64(b.ID)) })
	return all
}

// forwardTargets are the lower-cased paths to which messages of an entity go.
func forwardTargets(e *engine.Entity) (paths []string) {
	for _, property := range [...]string{e.Properties.ForwardTo, e.Properties.ForwardDeadLetteredMessagesTo} {
		if property != "" {
			paths = append(paths, targetOf(property))
		}
	}
	return paths
}
