package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// SM-399: names of an older log are exported as they are shown. A file with these names changes
// nothing, in any letter case; entities that it creates are shown in lower case.
func TestEntitiesOfAnOlderLog(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	d := logdir.Open(t, data, log.Options{Partitions: 4})
	_, w := d.Lead(0)
	for i, path := range []string{"Names.Topic", "Names.Topic/Subscriptions/Some.Sub", "Names.Queue"} {
		kind, topic := []event.EntityKind{event.Topic, event.Subscription, event.Queue}[i], []event.EntityID{0, 1, 0}[i]
		p := engine.DefaultProperties(kind)
		if kind == event.Subscription {
			p.ForwardTo = "Names.Queue"
		}
		d.Append(w, event.TimeOf(time.Now().Add(-time.Hour)), &event.EntityCreated{Envelope: event.Envelope{Slice: event.Slice{Entity: event.EntityID(i + 1)}},
			EntityKind: kind, Path: path, Topic: topic, HashVersion: 1, Hosts: []byte{0}, Properties: p})
	}
	d.Append(w, event.TimeOf(time.Now().Add(-time.Hour)), &event.RuleAdded{Envelope: event.Envelope{Slice: event.Slice{Entity: 2}}, Rule: event.Rule{Name: "All.Of.Them", Filter: event.Filter{Kind: event.TrueFilter}}})
	d.Close()
	connection, stop := startStoppable(t, data)
	t.Cleanup(stop)
	s := steps{t, connection}
	file := filepath.Join(t.TempDir(), "out.yaml")
	s.run(0, "", "entities", "export", "--file", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Name: Names.Topic\n", "Name: Some.Sub\n", "Name: All.Of.Them\n", "Name: Names.Queue\n", "ForwardTo: Names.Queue\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the file:\n%s", want, text)
		}
	}
	const nothing = "no changes"
	s.run(0, nothing, "entities", "apply", file)
	other := strings.NewReplacer("Names.Queue", "names.QUEUE", "Names.Topic", "NAMES.topic", "Some.Sub", "some.sub").Replace(string(text))
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(0, nothing, "entities", "apply", file)
	if err := os.WriteFile(file, []byte("Queues:\n  - Name: New.Queue\n    Properties: {MaxDeliveryCount: 3, DefaultMessageTimeToLive: PT1H, DuplicateDetectionHistoryTimeWindow: PT20S}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(0, "…", "entities", "apply", file)
	if got := s.run(0, "…", "queue", "show", "New.Queue"); !strings.HasPrefix(got, "name                                  new.queue\n") {
		t.Errorf("shown:\n%s", got)
	}
	s.run(0, nothing, "entities", "apply", file)
	s.run(0, "deleted queue Names.Queue with 0 messages", "queue", "delete", "names.queue", "--confirm", "names.queue")
	s.run(0, "created queue names.queue", "queue", "create", "Names.Queue")
}
