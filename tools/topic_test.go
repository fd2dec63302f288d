package tools_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

// marker is in every key of every access rule.
const marker event.Secret = "MARKER-bm90IGEga2V5"

// evil is text that must not reach a terminal unchanged.
const evil = "\x1b[2J\u202e\xff\n\x7f\u0085\U000e0041"

// write creates a data directory with one partition, a frame for each record, and a checkpoint
// after the last one with the state there.
func write(t *testing.T, records [][]event.Event, checkpoint bool) string {
	t.Helper()
	dir := t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 1})
	p, w := d.Lead(0)
	x := index.New()
	var end event.LSN
	for i, events := range records {
		at := event.Time(1_900_000_000_000 + 1000*i)
		end = d.Append(w, at, events...)
		for _, ev := range events {
			if checkpoint {
				x.Apply(at, ev)
			}
		}
	}
	if checkpoint {
		d.Save(p, end, x.Encode(nil))
	}
	d.Close()
	return dir
}

// fill sets every field of an event. Texts begin with text, and all values that could be equal
// differ.
func fill(v reflect.Value, text string, n *int) {
	*n++
	switch x := v.Addr().Interface().(type) {
	case *event.Arrival:
		type fields event.Arrival
		fill(reflect.ValueOf((*fields)(x)).Elem(), text, n)
		x.Hops = event.MaxHops
		return
	case *event.Blob:
		x.Data = []byte("blob " + text)
	case *event.Slice:
		*x = event.Slice{Entity: 4}
	case *event.OriginID:
		*x = 7
	case *event.Retention:
		*x = event.Retention(1 + *n%100)
	case *event.Time:
		*x = event.Time(1_600_000_000_000 + *n)
	case *time.Duration:
		*x = time.Duration(*n) * time.Second
	case *[]byte:
		*x = fmt.Append(nil, text, *n)
	case *event.Secret:
		*x = marker
	case *event.EntityKind:
		*x = event.EntityKind(1 + *n%3)
	case *event.FilterKind:
		*x = event.FilterKind(1 + *n%4)
	case *event.Field:
		*x = event.Field(1 + *n%8)
	case *event.Right:
		*x = event.Right(1 + *n%3)
	case *event.Cause:
		*x = event.Cause(1 + *n%6)
	case *event.ValueType:
		*x = event.ValueType(*n % 10)
	case *event.SubQueue:
		*x = event.TransferDeadLetter
	case *event.Relation, *event.Stop, *event.Role, *event.CloseCause, *event.Wanted, *event.Refusal, *event.Trigger, *event.AbortCause, *event.FenceCause, *event.CutCause:
		v.SetUint(uint64(1 + *n%2))
	default:
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i), text, n)
			}
		case reflect.Array:
			for i := range v.Len() {
				fill(v.Index(i), text, n)
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			for i := range v.Len() {
				fill(v.Index(i), text, n)
			}
		case reflect.String:
			v.SetString(fmt.Sprint(text, *n)) // equal values before and after are not printed twice
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), text, n)
		case reflect.Bool:
			v.SetBool(true)
		default:
			v.SetUint(uint64(1 + *n%100))
		}
	}
}

// filled returns an event of every kind with all its fields set.
func filled(text string) (events []event.Event) {
	var pool event.Pool
	n := 0
	for k := range 256 {
		if ev := pool.New(event.Kind(k)); ev != nil && !ofBase(ev.Kind()) {
			fill(reflect.ValueOf(ev).Elem(), text, &n)
			if made, ok := ev.(*event.EntityCreated); ok {
				made.KeyHash, made.Hosts, made.Slice.Entity = event.KeyHash, []byte{0, 0}, 11
			}
			events = append(events, ev)
		}
	}
	return events
}

// names returns the fields of a struct that must be printed; before an update booleans were the
// same.
func names(path string, t reflect.Type) (list []string) {
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Name == "Envelope" || f.Type.Kind() == reflect.Bool && strings.HasSuffix(path, "Updated.Before"):
		case f.Name == "Properties" && f.Type.Kind() == reflect.Struct:
			list = append(list, names(path, f.Type)...)
		case f.Type == reflect.TypeFor[event.Blob]():
			list = append(list, f.Name+"Size", f.Name+"Position", f.Name)
		default:
			list = append(list, f.Name)
		}
	}
	return list
}

// missing compares the printed fields of a struct with its fields.
func missing(path string, got any, t reflect.Type) (list []string) {
	switch {
	case t == reflect.TypeFor[event.Slice](): // a text
		return nil
	case t.Kind() == reflect.Pointer:
		return missing(path, got, t.Elem())
	case t.Kind() == reflect.Struct:
		m, ok := got.(map[string]any)
		if !ok {
			return []string{path}
		}
		if t == reflect.TypeFor[event.Property]() {
			t = reflect.TypeFor[struct {
				Name  string
				Type  string
				Value string
			}]()
		}
		for _, name := range names(path, t) {
			if _, ok := m[name]; !ok {
				list = append(list, path+"."+name)
			}
		}
		for i := range t.NumField() {
			f := t.Field(i)
			if inner, ok := m[f.Name]; ok && f.Type != reflect.TypeFor[event.Blob]() {
				list = append(list, missing(path+"."+f.Name, inner, f.Type)...)
			}
		}
	case t.Kind() == reflect.Slice:
		if t.Elem().Kind() != reflect.Struct || t == reflect.TypeFor[[]event.Returned]() {
			return nil
		}
		all, _ := got.([]any)
		if len(all) != 2 {
			return []string{path}
		}
		for _, one := range all {
			list = append(list, missing(path, one, t.Elem())...)
		}
	}
	return list
}

// SM-372, S31, S33: every field of every event is printed, with the worst values, but no control
// character and no key.
func TestDumpEverything(t *testing.T) {
	t.Parallel()
	events := filled(evil)
	dir := write(t, [][]event.Event{events}, false)
	var text, lines bytes.Buffer
	for out, opts := range map[*bytes.Buffer]tools.DumpOptions{&text: {Bodies: true}, &lines: {JSON: true, Bodies: true}} {
		if err := tools.Dump(out, dir, opts); err != nil {
			t.Fatal(err)
		}
		clean(t, out.String())
		if got := strings.Count(out.String(), "\n"); got != len(events) {
			t.Errorf("%d lines for %d events", got, len(events))
		}
	}
	sc := bufio.NewScanner(&lines)
	sc.Buffer(nil, 1<<20)
	for i := 0; sc.Scan(); i++ {
		var got map[string]any
		if err := json.Unmarshal(sc.Bytes(), &got); err != nil {
			t.Fatal(err, sc.Text())
		}
		ev := reflect.TypeOf(events[i]).Elem()
		for _, name := range missing(ev.Name(), got, ev) {
			t.Errorf("%s is not printed: %s", name, sc.Text())
		}
	}
	if !strings.Contains(text.String(), `Primary="***" Secondary="***"`) {
		t.Error("it is not said that there are keys")
	}
}

func clean(t *testing.T, out string) {
	t.Helper()
	for _, r := range out {
		if r != '\n' && (r < 0x20 || r > 0x7e) {
			t.Errorf("%q in the output", r)
		}
	}
	if strings.Contains(out, string(marker)) {
		t.Error("a key in the output")
	}
}

// S31: keys are only in the log, and not in the output of verify for an invalid log.
func TestVerifyShowsNoKeys(t *testing.T) {
	t.Parallel()
	p := event.Properties{AccessRules: []event.AccessRule{{Name: evil, Primary: marker, Secondary: marker}}}
	at := func(id event.EntityID) event.Envelope { return event.Envelope{Slice: event.Slice{Entity: id}} }
	topic := &event.EntityCreated{Envelope: at(2), EntityKind: event.Topic, Path: "t" + evil, Hosts: []byte{0}, Properties: p}
	rule := event.Rule{Name: evil, Filter: event.Filter{Kind: event.SQLFilter, Text: evil}}
	for name, c := range map[string]struct {
		then    []event.Event
		damaged bool
	}{
		"good":                         {[]event.Event{&event.EntityUpdated{Envelope: at(2), Properties: p, Before: p}}, false},
		"made twice":                   {[]event.Event{topic}, true},
		"update of nothing":            {[]event.Event{&event.EntityUpdated{Envelope: at(9), Properties: p, Before: p}}, true},
		"deletion of nothing":          {[]event.Event{&event.EntityDeleted{Envelope: at(9), EntityKind: event.Queue, Before: p}}, true},
		"rule of a topic":              {[]event.Event{&event.RuleAdded{Envelope: at(2), Rule: rule}}, true},
		"another rule of a topic":      {[]event.Event{&event.RuleUpdated{Envelope: at(2), Rule: rule, Before: rule}}, true},
		"no rule of a topic":           {[]event.Event{&event.RuleRemoved{Envelope: at(2), Rule: rule}}, true},
		"publishing what is not there": {[]event.Event{&event.ScheduledPublished{Envelope: at(2), Sequence: 1, NewSequence: 2}}, true},
	} {
		dir := write(t, [][]event.Event{{topic}, c.then}, false)
		var out bytes.Buffer
		r, err := tools.Verify(&out, dir, tools.VerifyOptions{})
		if err != nil || (len(r.Damaged) > 0) != c.damaged {
			t.Errorf("%s: %v, %v; want (len(r.Damaged) > 0) == c.damaged", name, err, r.Damaged)
		}
		clean(t, out.String())
		found := false
		for _, content := range contents(t, dir) {
			found = found || strings.Contains(content, string(marker))
		}
		if !found {
			t.Errorf("%s: no key in the directory, so nothing was shown", name)
		}
	}
}

// The copies of a scheduled message share its original body in an older frame. The state of a
// checkpoint refers to it, the body can be read, and damage of that frame is found.
func TestVerifySharedBodies(t *testing.T) {
	t.Parallel()
	topic, body := event.Envelope{Slice: event.Slice{Entity: 2}}, []byte("the only copy of the body")
	records := func() [][]event.Event {
		return [][]event.Event{
			{&event.MessageScheduled{Envelope: topic, Sequence: 1, ScheduledFor: 5, Body: event.Blob{Data: body}}},
			{&event.MessagePublished{Envelope: topic, Sequence: 2, EnqueuedAt: 6, Body: event.Blob{Data: []byte("published")}, Copies: []event.Copy{
				{Subscription: 3, Sequence: 1}, {Subscription: 4, Sequence: 1, InSession: true, SessionID: []byte("s")}}}},
			{&event.ScheduledPublished{Envelope: topic, Sequence: 1, NewSequence: 3, EnqueuedAt: 7, Copies: []event.Copy{
				{Subscription: 3, Sequence: 2}, {Subscription: 3, Sequence: 3, Rule: "r", Changes: event.Blob{Data: []byte("changes")}},
				{Subscription: 4, Sequence: 2, Cause: event.CauseNoSession, Changes: event.Blob{Data: []byte("reason")}}}}},
		}
	}
	dir := write(t, records(), true)
	var out bytes.Buffer
	if r, err := tools.Verify(&out, dir, tools.VerifyOptions{}); err != nil || len(r.Damaged) > 0 || len(r.Discarded) > 0 {
		t.Fatalf("%v, %+v\n%s; want len(r.Damaged) <= 0 && len(r.Discarded) <= 0", err, r, out.String())
	}
	readable(t, dir, map[event.EntityID][]string{3: {"published", string(body), string(body) + "changes"}, 4: {"published", string(body) + "reason"}})

	segment := filepath.Join(dir, "partitions", "00", "wal", "0000000001", "00000000000000000001")
	content, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(content, body) != 1 {
		t.Errorf("the body is there %d times", bytes.Count(content, body))
	}
	content[bytes.Index(content, body)] ^= 1
	if err := os.WriteFile(segment, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := tools.Verify(io.Discard, dir, tools.VerifyOptions{}); err != nil || len(r.Damaged) != 1 {
		t.Errorf("%v, %+v; want len(r.Damaged) == 1", err, r)
	}
}

// readable reads every message of the newest checkpoint: bodies, then changes, by slice.
func readable(t *testing.T, dir string, want map[event.EntityID][]string) {
	t.Helper()
	store, err := log.Open(t.Context(), dir, log.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p, err := store.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	s := replay.Newest(p, 0, func(c log.CheckpointInfo, err error) { t.Fatal(c.File, err) })
	if s.From == 0 {
		t.Fatal("no checkpoint")
	}
	x := s.Index
	got := map[event.EntityID][]string{}
	for _, id := range x.Slices() {
		for q := range event.TransferDeadLetter {
			for m := range x.Browse(id, q, 0) {
				content, err := p.ReadBlob(m.Body, nil)
				for _, c := range m.Changes {
					var more []byte
					if err == nil {
						more, err = p.ReadBlob(c, nil)
						content = append(content, more...)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				got[id.Entity] = append(got[id.Entity], string(content))
			}
		}
	}
	if !cmp.Equal(got, want) {
		t.Errorf("%v, want %v (-want +got):\n%s", got, want, cmp.Diff(want, got))
	}
}
