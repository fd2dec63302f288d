package format

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/test/history"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/export"
)

// duckdb runs a script in the Python of DUCKDB_PYTHON, which has DuckDB. Without one the test is
// left out; make tables makes one.
func duckdb(t *testing.T, script string, args ...string) string {
	t.Helper()
	python := os.Getenv("DUCKDB_PYTHON")
	if python == "" {
		t.Skip("DUCKDB_PYTHON is not set: make tables fetches DuckDB, and sets it")
	}
	c := exec.CommandContext(t.Context(), python, append([]string{"-c", script}, args...)...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	return out.String()
}

// TestDuckDB: DuckDB reads an export in each of its forms, and comes to the numbers that log dump
// has.
func TestDuckDB(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if err := history.Make(t.Context(), data, history.Options{Events: 20_000, Dead: 50, Lost: 100}); err != nil {
		t.Fatal(err)
	}
	var dump bytes.Buffer
	if err := tools.Dump(&dump, data, tools.DumpOptions{Partition: -1}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for _, line := range strings.Split(dump.String(), "\n") {
		if words := strings.Fields(line); len(words) > 4 && words[4] != "OriginDefined" {
			want[words[4]]++
		}
	}
	s, err := log.Open(t.Context(), data, log.Options{Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, f := range []export.Format{export.Parquet, export.CSV, export.JSONLines} {
		out := filepath.Join(t.TempDir(), string(f))
		if _, err := export.Export(t.Context(), s, func(ledger.Line) error { return nil }, export.Options{Dir: out, Format: f}); err != nil {
			t.Fatal(err)
		}
		got := duckdb(t, `
import duckdb, sys
out, form = sys.argv[1], sys.argv[2]
def table(name):
    file = f"{out}/{name}.{form}"
    return {"parquet": f"read_parquet('{file}')", "csv": f"read_csv('{file}')", "jsonl": f"read_json('{file}', format='newline_delimited')"}[form]
for event, n in duckdb.sql(f"select event, count(*) from {table('events')} group by 1 order by 1").fetchall():
    print(event, n)
lost = duckdb.sql(f"select count(*) from {table('locks')} where ended = 'lost' or ended = 'dead' and token is null").fetchall()[0][0]
held = duckdb.sql(f"select max(epoch_ms(until) - epoch_ms(locked_at)) from {table('locks')}").fetchall()[0][0]
named = duckdb.sql(f"select count(*) from {table('messages')} m join {table('events')} e on e.entity = m.entity and e.number = m.number and e.type = 'completed'").fetchall()[0][0]
who = duckdb.sql(f"select distinct o.container_id from {table('locks')} l join {table('origins')} o on o.partition = l.partition and o.id = l.origin").fetchall()
print("lost", lost); print("held", held); print("named", named); print("who", who)
`, out, string(f))
		counts := map[string]int{}
		for _, line := range strings.Split(got, "\n") {
			var n int
			name, number, _ := strings.Cut(line, " ")
			for _, c := range number {
				if c < '0' || c > '9' {
					n = -1
					break
				}
				n = n*10 + int(c-'0')
			}
			counts[name] = n
		}
		for event, n := range want {
			if counts[event] != n {
				t.Errorf("%s: %d of %s, log dump has %d", f, counts[event], event, n)
			}
		}
		if counts["lost"] != want["LockExpired"] || counts["named"] != want["MessageCompleted"] || counts["held"] != 30_000 || !strings.Contains(got, "who [('billing',)]") {
			t.Errorf("%s: of %v\n%s", f, want, got)
		}
	}
}
