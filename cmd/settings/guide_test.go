package settings

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The guide lists exactly the settings that exist, with their defaults and what they take, and the
// former ones with their fixed values.
func TestGuide(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guide/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, former []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z.-]+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$").FindAllStringSubmatch(string(page), -1) {
		if row[1] != accessRules && row[1] != historyPolicies { // which are not in Words
			listed = append(listed, strings.Join(row[1:4], " | "))
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(limits[a-z.-]+)` \\| ([^|]+) \\|$").FindAllStringSubmatch(string(page), -1) {
		former = append(former, row[1]+" | "+row[2])
	}
	var want, wantFormer []string
	for _, w := range Words() {
		if w.Fixed != "" {
			wantFormer = append(wantFormer, w.Name+" | "+w.Fixed)
			continue
		}
		value := w.Default
		if w.Shape == Switch {
			value = "false"
		} else if value == "" {
			value = "–"
		}
		want = append(want, fmt.Sprintf("%s | %s | %s", w.Name, value, w.Takes()))
	}
	if !slices.Equal(listed, want) {
		t.Errorf("docs/guide/settings.md has\n%s\nwant\n%s", strings.Join(listed, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(former, wantFormer) {
		t.Errorf("former settings of docs/guide/settings.md: %q, want %q", former, wantFormer)
	}
	for _, name := range []string{accessRules, historyPolicies} {
		if !strings.Contains(string(page), "\n| `"+name+"` | ") {
			t.Errorf("docs/guide/settings.md does not list %s", name)
		}
	}
}

// The setting takes a documented default that is a value and not a sentence, and it is the default
// of this package.
func TestDocumentedDefaults(t *testing.T) {
	t.Parallel()
	for _, w := range Words() {
		if w.Default == "" || strings.Contains(w.Default, " ") {
			continue
		}
		s := defaults()
		if err := w.setter.set(&s, []string{w.Default}); err != nil {
			t.Errorf("%s: %v", w.Name, err)
		}
		if d := defaults(); s.Storage.Reserve != d.Storage.Reserve || s.Storage.SealAfter != d.Storage.SealAfter || s.Storage.ScrubEvery != d.Storage.ScrubEvery ||
			s.Mode != d.Mode || s.Tier != d.Tier || s.Storage.Data != d.Storage.Data || s.Logging != d.Logging || s.FailuresTo != d.FailuresTo || s.Storage.Fence != d.Storage.Fence {
			t.Errorf("%s: %s is not the default: %+v", w.Name, w.Default, s)
		}
	}
}
