package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/format"
)

// event is the directory of package event.
const event = "../.."

// TestGenerated: the generated files are up to date.
func TestGenerated(t *testing.T) {
	t.Parallel()
	files, err := generate(event)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale (%v): go generate ./log/event", name, err)
		}
	}
}

// TestCapabilities: the capabilities of events are those of namespace.json.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	s, err := read(event)
	if err != nil {
		t.Fatal(err)
	}
	check := func(of, word string) {
		if word != "" && !slices.Contains(format.Capabilities, word) {
			t.Errorf("%s: there is no capability %s", of, word)
		}
	}
	for _, k := range s.Kinds {
		check(k.Name, k.With)
		for _, f := range k.Fields {
			check(k.Name+"."+f.Name, f.With)
		}
	}
}

// TestRefused: a field that cannot be stored, or would not be read, is refused by name.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, want string }{
		{"//event:kind 1\ntype A struct{ X float64 }", "x.X: cannot store a float64"},
		{"//event:kind 1\ntype A struct{ X []int }", "x.X[i]: cannot store a int"},
		{"//event:kind 300\ntype A struct{}", `A: "300" is not the number of a kind`},
		{"//event:kind 1 facts\ntype A struct{}", `A: unknown word "facts"`},
		{"//event:kind 1\ntype A struct{}\n//event:kind 1\ntype B struct{}", "B has number 1, which another event has"},
		{"//event:kind 1\ntype A struct{ X uint64 `log:\"since 2\"` }", `A.X: unknown word "since 2"`},
		{"//event:kind 1\ntype A struct {\nX uint64 `log:\"v2\"`\nY uint64\n}", "A.Y of version 1 follows a field of version 2"},
		{"//event:kind 1\ntype A struct {\nX uint64 `log:\"v2,with=moves\"`\nY uint64 `log:\"v3\"`\n}", "A.Y needs no capability but follows a field that needs one"},
		{"//event:kind 1\ntype A struct {\nX B\nY uint64 `log:\"v2,with=moves\"`\n}\ntype B struct{ Z uint64 `log:\"v3\"` }", "A.Y: only the newest fields of an event itself can need a capability"},
		{"//event:kind 1\ntype A struct{ X B }\ntype B struct{ Y uint64 `log:\"v2,with=moves\"` }", "B.Y: only the newest fields of an event itself can need a capability"},
		{"//event:kind 1\ntype A struct{ X uint64 `log:\"after=Y\"` }", "A.X: the field Y to store it after does not exist"},
		{"//event:kind 1\ntype A struct{ X bool `log:\"in=Details\"` }", "A.X: the details Details to store it in do not exist"},
		{"//event:kind 1\ntype A struct{ B }\ntype B struct{}", "A embeds B: only an envelope may be"},
		{"//event:kind 1\ntype A struct{ X Slice `export:\"number:Colour\"` }\ntype Slice struct{}", "Slice has no field Colour"},
		{"//event:worms one\ntype A uint8\nconst B A = 1", "A: directive worms has no effect"},
		{"//event:closed letter\ntype A uint8", "A: directive closed has no effect"},
		{"//event:words one two\ntype A uint8\nconst B A = 1", "A has 2 words for 1 constants"},
	} {
		source := "package event\n\ntype encoder struct{}\ntype decoder struct{}\nfunc (*encoder) uvarint(uint64) {}\nfunc (*decoder) uvarint() uint64 { return 0 }\n\n" + c.source
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "event.go"), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := generate(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v, want %s", c.source, err, c.want)
		}
	}
}

// TestVersions: fields of several versions that need capabilities are written, and read, with all
// earlier ones.
func TestVersions(t *testing.T) {
	t.Parallel()
	k := &structure{namedType: &namedType{Name: "A"}, Number: 1, Fields: []*field{
		{Name: "X", Type: "uint64", Version: 2},
		{Name: "Y", Type: "uint64", Version: 3, With: "moves"},
		{Name: "Z", Type: "bool", Version: 4, With: "moves"},
	}}
	s := &schema{stored: map[string]codec{"uint64": {method: "uvarint"}, "bool": {method: "bool"}}}
	c := s.Code(k)
	for got, want := range map[string]string{
		s.Version(k): "if ev.Z {\nreturn 4\n}\nif ev.Y != 0 {\nreturn 3\n}\nreturn 2",
		c.Encode:     "e.uvarint(x.X)\nif x.Y != 0 || x.Z {\ne.uvarint(x.Y)\n}\nif x.Z {\ne.bool(x.Z)\n}\n",
		c.Decode:     "if d.version >= 2 {\nx.X = d.uvarint()\n}\nif d.version >= 3 {\nx.Y = d.uvarint()\n}\nif d.version >= 4 {\nx.Z = d.bool()\n}\n",
	} {
		if got != want || len(s.wrong) > 0 {
			t.Errorf("%s, want %s; %v", got, want, s.wrong)
		}
	}
}
