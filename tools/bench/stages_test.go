package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// read writes an entity file and reads it as the broker does.
func read(t *testing.T, f *entityFile) []engine.PutEntity {
	t.Helper()
	name := filepath.Join(t.TempDir(), "entities.json")
	if err := f.write(name); err != nil {
		t.Fatal(err)
	}
	put, _, err := settings.ReadEntities(name)
	if err != nil {
		t.Fatal(err)
	}
	return put
}

// rulesOf returns the rules of all subscriptions of a topic.
func rulesOf(t *testing.T, put []engine.PutEntity, topic string) *filter.Set {
	t.Helper()
	rules := filter.NewSet()
	for i := range put {
		if put[i].Kind != event.Subscription || !strings.HasPrefix(put[i].Path, topic+"/") {
			continue
		}
		for _, r := range put[i].Rules {
			if err := rules.Put(event.EntityID(i), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return rules
}

// matching returns the number of subscriptions that get a message with the properties.
func matching(rules *filter.Set, properties map[string]any) int {
	m := new(filter.Message)
	for name, v := range properties {
		switch v := v.(type) {
		case string:
			m.User = append(m.User, event.Property{Name: name, Value: event.Value{Type: event.String, Text: v}})
		case int64:
			m.User = append(m.User, event.Property{Name: name, Value: event.Value{Type: event.Long, Bits: uint64(v)}})
		}
	}
	return len(rules.Match(m, nil))
}

func TestTopicsMatchWhatTheirNamesSay(t *testing.T) {
	put := read(t, &entityFile{Queues: []entityEntry{largeQueue()}, Topics: []topicEntry{
		filteredTopic(), correlatedTopic("few", fewCorrelations), correlatedTopic("many", manyCorrelations)}})
	filtered, few, many := rulesOf(t, put, publishTopic), rulesOf(t, put, "few"), rulesOf(t, put, "many")
	for _, p := range orders() {
		if n := matching(filtered, p); n != publishMatching {
			t.Errorf("%v: %d of %d filters match", p, n, publishFilters)
		}
	}
	for _, p := range customers() {
		if few, many := matching(few, p), matching(many, p); few != 1 || many != 1 {
			t.Errorf("%v: %d filters match, and of many %d", p, few, many)
		}
	}
	for _, f := range manyForms() {
		if n := len(read(t, f.file)); n != manyEntities {
			t.Errorf("%s: %d entities", f.name, n)
		}
	}
}

func TestPageAsksForOnePage(t *testing.T) {
	status, size := http.StatusOK, 100*pageSize
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/$Resources/queues" || r.URL.Query().Get("$skip") != "5000" || r.URL.Query().Get("$top") != "100" {
			t.Errorf("asked for %v", r.URL)
		}
		if !strings.HasPrefix(r.Header.Get("Authorization"), "SharedAccessSignature ") {
			t.Error("no token")
		}
		w.WriteHeader(status)
		io.WriteString(w, strings.Repeat("x", size))
	}))
	defer s.Close()
	c := &child{target: Target{ConnectionString: fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=k;SharedAccessKey=s=;UseDevelopmentEmulator=true",
		strings.TrimPrefix(s.URL, "http://"))}}
	if err := c.page(t.Context(), 5000); err != nil {
		t.Error(err)
	}
	if size = 10; c.page(t.Context(), 5000) == nil {
		t.Error("an empty page passes")
	}
	if status, size = http.StatusUnauthorized, 100*pageSize; c.page(t.Context(), 5000) == nil {
		t.Error("a refusal passes")
	}
}

func TestLogBytes(t *testing.T) {
	b := &broker{dir: t.TempDir()}
	for name, n := range map[string]int{"00/wal/0000000001/1": 100, "01/wal/0000000001/1": 20, "00/checkpoints/1.ckpt": 3, "00/manifest": 4} {
		file := filepath.Join(b.dir, "data", "partitions", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := b.logBytes(); n != 120 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestStagesAreKnown(t *testing.T) {
	if _, err := Suite(t.Context(), SuiteOptions{Stages: []string{"publish", "nothing"}}); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("%+v; want err != nil && strings.Contains(err.Error(), `\"nothing\"`)", err)
	}
}
