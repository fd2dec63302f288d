package tools_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

// I27: events of a capability that the directory does not list are damage, because a program that
// does not know the capability would accept the directory. The first event of each capability is
// reported, and the rest of the log is replayed.
func TestUnlistedCapability(t *testing.T) {
	t.Parallel()
	const fences, moved, transactions = `PartitionFenced needs the capability \"fences\"`, `MessageEnqueued needs the capability \"moves\"`,
		`NumbersReserved needs the capability \"transactions\"`
	const policies = `HistoryPolicySet needs the capability \"policies\"`
	const backups, erasures, erased, cuts = `BackupMarked needs the capability \"backups\"`, `BodyErased needs the capability \"erasures\"`,
		`ErasureFinished needs the capability \"erased\"`, `HistoryCut needs the capability \"cuts\"`
	for name, c := range map[string]struct {
		listed []string
		want   []string
	}{
		"none":  {nil, []string{moved, transactions, fences, policies, backups, erasures, erased, cuts}},
		"moves": {[]string{log.Moves}, []string{transactions, fences, policies, backups, erasures, erased, cuts}},
		"all":   {[]string{log.Backups, log.Cuts, log.Erased, log.Erasures, log.Fences, log.Moves, log.Policies, log.Transactions}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := logdir.Open(t, dir, log.Options{Partitions: 1})
			for _, capability := range c.listed {
				if err := d.Use(capability); err != nil {
					t.Fatal(err)
				}
			}
			_, w := d.Lead(0)
			records := slices.Concat(history(), topicHistory(), facts(), moves())
			for i, events := range records {
				w.Batch().AppendRecord(event.Time(1_900_000_000_000+1000*i), events, log.Durable)
			}
			w.Append(w.Batch())
			d.Close()
			var out bytes.Buffer
			r, err := tools.Verify(&out, dir, tools.VerifyOptions{})
			if err != nil || len(r.Damaged) != len(c.want) || r.Records != uint64(len(records)) {
				t.Fatalf("%v %+v\n%s; want len(r.Damaged) == len(c.want) && r.Records == uint64(len(records))", err, r, out.String())
			}
			for i, want := range c.want {
				if line := strings.Split(out.String(), "\n")[i]; !strings.HasPrefix(line, "DAMAGED ") || !strings.Contains(line, want) {
					t.Errorf("%q, want %q", line, want)
				}
			}
		})
	}
}
