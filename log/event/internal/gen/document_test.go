package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// labels are the names in docs/log-format.md of fields that have other words there.
var labels = map[string]string{
	"MessageID": "message-id", "SubQueue": "sub-queue", "DuplicateUntil": "remembered until", "EntityKind": "kind", "LogPartition": "partition",
	"Missed": "not noted", "Numbers": "count", "Sequences": "count", "Returned": "count", "Sessions": "per session", "IDs": "per id", "Sources": "per source",
	"Policy": "retention", "Why": "refusal", "Rows": "per message",
	"OriginDefined.ID": "number", "OriginDefined.Origin": "connection", "LinkOpened.InSession": "has a session", "SendsRefused.Since": "time of the first",
	"SliceRestored.Last": "newest sequence number", "SliceRestored.Given": "newest transfer number", "HistoryCut.First": "begins",
}

var (
	eventRow = regexp.MustCompile(`(?m)^\|\s*(\d*)\s*\|\s*(.*?)\s*\|\s*(\d*)\s*\|\s*(.*?)\s*\|$`)
	inName   = regexp.MustCompile(`([a-z])([A-Z])|([A-Z])([A-Z][a-z])`)
)

// label returns the page's name of a field.
func label(k *structure, f *field) string {
	for _, name := range []string{k.Name + "." + f.Name, f.Name} {
		if words := labels[name]; words != "" {
			return words
		}
	}
	return strings.ToLower(inName.ReplaceAllString(f.Name, "$1$3 $2$4"))
}

// TestDocument: the table of docs/log-format.md has the number, name, newest version and capability
// of each kind, and its fields in the order in which they are stored. Each follows the version that
// added it, and has its size if that is one byte or 16.
func TestDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/log-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## 8. Records\n")
	s, err := read(event)
	if err != nil {
		t.Fatal(err)
	}
	rows, heads := map[string]string{}, map[string]string{}
	head := ""
	for _, m := range eventRow.FindAllStringSubmatch(section, -1) {
		if m[1] == "" {
			head = m[2]
			continue
		}
		rows[m[1]+" "+m[2]+" "+m[3]], heads[m[2]] = m[4], head
	}
	for _, k := range s.Kinds {
		name := fmt.Sprintf("%d %s %d", k.Number, k.Name, s.Newest(k))
		row, ok := rows[name]
		delete(rows, name)
		switch {
		case !ok:
			t.Errorf("there is no row for %s", name)
		case k.With != "" && !strings.Contains(heads[k.Name], "`"+k.With+"`"):
			t.Errorf("%s is listed under %q, and needs %s", k.Name, heads[k.Name], k.With)
		case !k.ByHand():
			for _, missing := range s.missing(k, row) {
				t.Errorf("%s: there is no %q, or not there: %s", k.Name, missing, row)
			}
		}
	}
	for name := range rows {
		t.Errorf("there is a row for %s, which is no event", name)
	}
}

// missing are the words for fields of an event that a row does not have in their order.
func (s *schema) missing(k *structure, row string) (missing []string) {
	version := 1
	find := func(words string) {
		at := regexp.MustCompile(`\b` + words + `\b`).FindStringIndex(row)
		if at == nil {
			missing = append(missing, words)
			return
		}
		row = row[at[1]:]
	}
	for _, f := range k.Stored() {
		if f.Version > version {
			version = f.Version
			find(fmt.Sprintf("version %d", version))
		}
		words := label(k, f)
		switch under := s.under(f.Type); {
		case under == "byte":
			words += " 1"
		case under == "[16]byte" && f.Type != "LockToken":
			words += " 16"
		}
		find(words)
	}
	return missing
}
