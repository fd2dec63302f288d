package settings

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// again writes entities in both formats, reads them, and writes them again. MA-153: the defaults of
// the reader do not matter.
func again(t *testing.T, entities []engine.PutEntity) {
	t.Helper()
	for _, format := range []EntityFormat{EntityJSON, EntityYAML} {
		var first, second bytes.Buffer
		if err := WriteEntities(&first, entities, format, true); err != nil {
			t.Fatal(err)
		}
		service, err := parseEntities("f."+string(format), first.Bytes(), readMode{service: true}, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", format, err, first.Bytes())
		}
		if diff := cmp.Diff(entities, service.put, revealed); diff != "" && len(entities)+len(service.put) > 0 {
			t.Fatalf("%s, with the service's defaults (-written +read):\n%s\n%s", format, diff, first.Bytes())
		}
		got, err := parsed("f."+string(format), first.Bytes())
		if err != nil {
			t.Fatalf("%s: %v\n%s", format, err, first.Bytes())
		}
		if diff := cmp.Diff(entities, got, revealed); diff != "" && len(entities)+len(got) > 0 {
			t.Fatalf("%s (-written +read):\n%s\n%s", format, diff, first.Bytes())
		}
		if changes := Diff(entities, got); changes != nil {
			t.Fatalf("%s: %v, want nil", format, changes)
		}
		if err := WriteEntities(&second, got, format, true); err != nil || first.String() != second.String() {
			t.Fatalf("%s: written again it is another: %v\n%s", format, err, cmp.Diff(first.String(), second.String()))
		}
	}
}

func TestWrittenEntitiesReadBackTheSame(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"testdata/sample.json", "testdata/entities.yaml", "../../docs/examples/config.json"} {
		entities, _, err := ReadEntities(file)
		if err != nil {
			t.Fatal(err)
		}
		again(t, entities)
	}
	again(t, nil)
}

// Every entity that the broker can have has a form in the file.
func TestRandomEntitiesReadBackTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		g := generator{rand.New(rand.NewPCG(seed, 4))}
		var entities []engine.PutEntity
		for i := range 3 {
			entities = append(entities, g.entity(event.Queue, fmt.Sprint("q/", i)))
		}
		topic := g.entity(event.Topic, "123")
		sub := g.entity(event.Subscription, "123/Subscriptions/null")
		entities = append(entities, topic, sub)
		again(t, entities)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type generator struct{ *rand.Rand }

func pick[T any](g generator, of ...T) T { return of[g.IntN(len(of))] }

func (g generator) text() string {
	return pick(g, "", "x", "true", "12", "~", "2026-01-31", "a: b #", "é\n\t\"'\\", " <&> ", "=", "<<", "0x1", "1e3", "- a", "\u2028", "<<", "\ufeffx", "\u0085", "\x7f", strings.Repeat("long ", 40))
}

func (g generator) entity(kind event.EntityKind, path string) engine.PutEntity {
	e := engine.PutEntity{Kind: kind, Path: path, Properties: pick(g, engine.DefaultProperties(kind), emulatorDefaults(kind))}
	for _, p := range properties {
		if !p.of.has(kind) || g.IntN(2) == 0 {
			continue
		}
		switch field := p.field(&e.Properties).(type) {
		case *bool:
			*field = !*field
		case *uint32:
			*field = pick(g, uint32(1024), 2048, 1)
		case *time.Duration:
			*field = pick(g, 5*time.Minute, *field)
		case *event.Status:
			*field = pick(g, event.Disabled, event.SendDisabled, event.ReceiveDisabled)
		case *[]event.AccessRule:
			*field = []event.AccessRule{{Name: "a", Rights: event.Rights{event.Listen, event.Send}, Primary: "null", Secondary: "s: #"}}
		case *string:
			if *field = "Q/0"; p.name == "UserMetadata" {
				*field = g.text()
			} else if path == "q/0" {
				*field = "123"
			}
		}
	}
	if e.Properties.ForwardTo != "" {
		e.Properties.RequiresSession = false
	}
	if e.Properties.RequiresDuplicateDetection {
		e.Properties.EnableExpress = false
	}
	if kind == event.Subscription && g.IntN(4) > 0 {
		e.OnlyRules = true
		for i := range 1 + g.IntN(4) {
			e.Rules = append(e.Rules, g.rule(fmt.Sprint("$rule", i)))
		}
	}
	return e
}

func (g generator) rule(name string) event.Rule {
	r := event.Rule{Name: name, Filter: event.Filter{Kind: pick(g, event.SQLFilter, event.TrueFilter, event.FalseFilter, event.CorrelationFilter)}}
	switch r.Filter.Kind {
	case event.SQLFilter:
		r.Filter.Text, r.Filter.Parameters = "a <> 1 AND \"b\" > 'é''\n'", g.values("@p")
	case event.CorrelationFilter:
		r.Filter.Conditions = []event.Condition{{Field: event.FieldMessageID, Text: g.text()}, {Field: event.FieldContentType, Text: g.text()}}
		r.Filter.Properties = g.values(pick(g, "", "<<", "p "))
	}
	if g.IntN(2) == 0 {
		r.Action = event.Action{Text: "SET a = 1; REMOVE [b c]", Parameters: g.values("@p")}
	}
	return r
}

func (g generator) values(prefix string) []event.Property {
	var list []event.Property
	for i := range 1 + g.IntN(4) {
		v := event.Value{Type: pick(g, event.Bool, event.Int, event.Long, event.Double, event.Decimal, event.String, event.UUID, event.Instant, event.Span)}
		switch v.Type {
		case event.Bool:
			v.Bits = g.Uint64N(2)
		case event.Int, event.Long, event.Span:
			v.Bits = pick[uint64](g, 0, 1, 1<<31-1, 1<<31, math.MaxUint64, 1<<63-1, math.MaxUint64-1<<31, math.MaxUint64-1<<40)
		case event.Double:
			v.Bits = math.Float64bits(pick(g, 0, 1, -1.5, 1e300, 5e-324, 1e20, 123456789, math.Inf(1), math.Inf(-1), math.NaN()))
		case event.Decimal:
			v.Text = pick(g, "0", "-12.50", "79228162514264337593543950335")
		case event.String:
			v.Text = g.text()
		case event.UUID:
			v.Text = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xff"
		case event.Instant:
			v.Bits, v.Text = pick[uint64](g, 0, 1, 639054432001234567, 3155378975999999999), pick(g, "", event.NoZone)
			if v.Bits > 1 && v.Bits < 1<<60 {
				v.Text = pick(g, "", event.NoZone, "+02:00", "-11:30")
			}
		}
		list = append(list, event.Property{Name: prefix + pick(g, "", "<<", "null", "~", "a: b", "- ", "1", "\"'") + fmt.Sprint(i), Value: v})
	}
	return list
}

// The files leave out defaults, and have all other properties.
func TestWrittenEntities(t *testing.T) {
	t.Parallel()
	rules := put(event.Subscription, "Events/Subscriptions/some")
	rules.Rules, rules.OnlyRules = append(sampleRules(), event.Rule{Name: "$Default", Filter: event.Filter{Kind: event.TrueFilter}}), true
	deaf := put(event.Subscription, "Events/Subscriptions/none")
	deaf.OnlyRules = true
	entities := []engine.PutEntity{
		rules, deaf, put(event.Subscription, "Events/Subscriptions/default"), put(event.Topic, "events"),
		{Kind: event.Queue, Path: "cloud", Properties: engine.DefaultProperties(event.Queue)}, put(event.Queue, "emulator"),
		put(event.Queue, "other", func(p *event.Properties) {
			p.ForwardTo, p.ForwardDeadLetteredMessagesTo, p.EnablePartitioning, p.UserMetadata = "sb://host.example/Cloud", "emulator", true, "<a>"
			p.AccessRules = []event.AccessRule{{Name: "app", Rights: event.Rights{event.Send, event.Listen}, Primary: "MARKER-1", Secondary: "MARKER-2"}}
		}),
	}
	for _, c := range []struct {
		file     string
		format   EntityFormat
		withKeys bool
	}{{"written.json", EntityJSON, false}, {"written.yaml", EntityYAML, false}, {"written-keys.yaml", EntityYAML, true}} {
		var b strings.Builder
		if err := WriteEntities(&b, entities, c.format, c.withKeys); err != nil {
			t.Fatal(err)
		}
		golden(t, c.file, b.String())
		_, err := parsed(c.file, []byte(b.String()))
		if c.withKeys != (err == nil) || strings.Contains(b.String(), "MARKER") != c.withKeys {
			t.Errorf(`%s: %v; want c.withKeys == (err == nil) && strings.Contains(b.String(), "MARKER") == c.withKeys`, c.file, err)
		}
	}
	if err := WriteEntities(&strings.Builder{}, entities[:1], EntityJSON, false); err == nil {
		t.Error("a subscription was written without its topic")
	}
}
