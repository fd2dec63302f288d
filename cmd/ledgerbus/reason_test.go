package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/tools"
)

// With --reason each command that makes a change gives a reason, and the log has it in the record
// of the change. Other namespaces ignore it.
func TestReason(t *testing.T) {
	t.Parallel()
	change := func(t *testing.T, connection string) {
		s := steps{t, connection}
		s.run(0, "created queue q", "queue", "create", "q", "--reason", "Störung 4711")
		s.run(0, "updated queue q", "queue", "update", "q", "--max-delivery-count", "3", "--reason", "they come too often")
		s.run(0, "updated queue q", "queue", "update", "q", "--max-delivery-count", "4")
		s.run(0, "created topic t", "topic", "create", "t")
		s.run(0, "created subscription s of t", "subscription", "create", "t", "s", "--reason", "audit")
		s.run(0, "created rule r of t/Subscriptions/s: matches nothing", "rule", "create", "t", "s", "r", "--match-none", "--reason", "none of it")
		s.run(0, "updated rule r of t/Subscriptions/s: matches everything", "rule", "update", "t", "s", "r", "--match-all", "--reason", "all of it")
		s.run(0, "deleted rule r of t/Subscriptions/s", "rule", "delete", "t", "s", "r", "--confirm", "r", "--reason", "not needed")
		s.run(0, "…", "queue", "delete", "q", "--confirm", "q", "--reason", "moved away")
	}
	t.Run("other", func(t *testing.T) {
		_, connection := startOther(t, "Standard")
		change(t, connection)
	})
	dir := t.TempDir()
	t.Run("broker", func(t *testing.T) { change(t, startBroker(t, "data", dir)) })

	var dump bytes.Buffer
	if err := tools.Dump(&dump, dir, tools.DumpOptions{Partition: -1, JSON: true}); err != nil {
		t.Fatal(err)
	}
	var got []string
	before := ""
	for line := range strings.Lines(dump.String()) {
		var e struct{ Event, Entity, Reason, TrackingID, By string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == "ReasonGiven" {
			got = append(got, before+" because "+e.Reason)
			if e.TrackingID != "" || !strings.Contains(e.By, " ledgerbus-cli ") {
				t.Errorf(`%+v; want e.TrackingID == "" && strings.Contains(e.By, " ledgerbus-cli ")`, line)
			}
		}
		before = e.Event + " " + e.Entity
	}
	want := []string{"EntityCreated 2/0 because Störung 4711", "EntityUpdated 2/0 because they come too often", "RuleAdded 4/0 because audit",
		"RuleAdded 4/0 because none of it", "RuleUpdated 4/0 because all of it", "RuleRemoved 4/0 because not needed", "EntityDeleted 2/0 because moved away"}
	if !slices.Equal(got, want) {
		t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
