package host

import (
	"fmt"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Whatever version of an entity a partition was given, its use counts for the version that the
// directory returns (semantics.md 7.7), even after a settings file has asked again for an existing
// entity.
func TestVersionsShareTheirUse(t *testing.T) {
	t.Parallel()
	d := &manualTime{}
	b := openAt(t, t.TempDir(), d)
	defer b.close(t)
	put := engine.PutEntity{Kind: event.Queue, Path: "Orders", Properties: testQueue()}
	for step := range 4 {
		if step == 2 {
			put.Properties.MaxDeliveryCount++
		}
		e, err := b.PutEntity(t.Context(), put)
		if err != nil {
			t.Fatal(err)
		}
		if known, _ := b.Find("orders"); known != e {
			t.Fatalf("step %d: the entity is not the one that is found", step)
		}
		d.turn(time.Minute)
		if _, err := b.ask(t.Context(), e.Hosts[0], &engine.Peek{Slice: event.Slice{Entity: e.ID}, Count: 1, MaxBytes: 1}); err != nil {
			t.Fatal(err)
		}
		if used := e.LastUse(); used != b.Now() {
			t.Errorf("step %d: last used %v before the look at it", step, b.Now().Sub(used))
		}
	}
}

// More than are asked for at a time, and refusals among them.
func TestPutManyEntities(t *testing.T) {
	t.Parallel()
	b := openAt(t, t.TempDir(), &manualTime{})
	defer b.close(t)
	cmds := make([]engine.PutEntity, 2*maxAsked+10)
	for i := range cmds {
		cmds[i] = engine.PutEntity{Kind: event.Queue, Path: fmt.Sprint("queue-", i), Properties: testQueue()}
		if i%maxAsked == 7 {
			cmds[i].Path = "not?allowed"
		}
	}
	entities, errs := b.PutEntities(t.Context(), cmds)
	for i := range cmds {
		if refused := i%maxAsked == 7; refused != (errs[i] != nil) || refused != (entities[i] == nil) {
			t.Fatalf("%s: %v, %v; want refused == (errs[i] != nil) && refused == (entities[i] == nil)", cmds[i].Path, entities[i], errs[i])
		}
		if entities[i] != nil && entities[i].Path != cmds[i].Path {
			t.Fatalf("%s in the place of %s", entities[i].Path, cmds[i].Path)
		}
	}
	if n := len(b.Entities()); n != len(cmds)-3 {
		t.Errorf("%d entities", n)
	}
}
