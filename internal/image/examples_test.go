package main

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
)

// The probes of the Kubernetes example do not use /health, which fails on a full disk: Kubernetes
// would restart the broker and disconnect its consumers, which are the only ones that make room
// (MA-162).
func TestProbesOfKubernetes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/examples/containers/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(\w+)Probe:.*\n\s+exec: \{command: \[(.*)\]\}`).FindAllStringSubmatch(string(text), -1) {
		found[m[1]] = m[2]
	}
	want := map[string]string{
		"startup": "/ledgerbus, health, --ready", "readiness": "/ledgerbus, health, --ready", "liveness": "/ledgerbus, health, --live",
	}
	if !maps.Equal(found, want) {
		t.Errorf("probes %q, want %q", found, want)
	}
}

// What the examples and the guide set is something that the broker reads, and the YAML is YAML.
func TestExamples(t *testing.T) {
	t.Parallel()
	known := map[string]bool{
		"GOGC": true, "LEDGERBUS_CONFIG": true, "LEDGERBUS_ACCESS_RULES": true, "LEDGERBUS_ENTITIES_JSON": true, "LEDGERBUS_ENTITIES_IF_PRESENT": true,
	}
	for _, w := range settings.Words() {
		known[w.Variable()] = true
	}
	files, err := filepath.Glob("../../docs/examples/containers/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v; want len(files) != 0", files, err)
	}
	files = append(files, "../../docs/examples/ledgerbus.service", "../../docs/guide/containers.md")
	variable := regexp.MustCompile(`LEDGERBUS_[A-Z_]+[A-Z]`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variable.FindAllString(string(text), -1) {
			if !known[name] {
				t.Errorf("%s sets %s, which means nothing", file, name)
			}
		}
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		for d := yaml.NewDecoder(strings.NewReader(string(text))); ; {
			if err := d.Decode(new(yaml.Node)); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
	for _, v := range environment {
		if name, _, _ := strings.Cut(v, "="); !known[name] {
			t.Errorf("the image sets %s, which means nothing", name)
		}
	}
}
