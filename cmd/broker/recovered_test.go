package broker

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log"
)

func TestRecoveredIsTheSumOfPartitions(t *testing.T) {
	t.Parallel()
	damaged := errors.New("damaged")
	ended := host.PartitionRecovery{Log: log.Recovery{Clean: true, Frames: 7, Bytes: 1000}, Messages: 5, Locks: 1}
	killed := host.PartitionRecovery{Log: log.Recovery{Frames: 3, Bytes: 300, CutBytes: 24}, Messages: 2, Locks: 2}
	refused := host.PartitionRecovery{Err: damaged}
	fresh := host.PartitionRecovery{Log: log.Recovery{Clean: true}}
	for name, c := range map[string]struct {
		of   []host.PartitionRecovery
		want Recovered
	}{
		"new":          {[]host.PartitionRecovery{fresh, fresh}, Recovered{New: true, Clean: true}},
		"ended":        {[]host.PartitionRecovery{ended, fresh}, Recovered{Clean: true, Messages: 5, Locks: 1, Bytes: 1000}},
		"killed":       {[]host.PartitionRecovery{ended, killed}, Recovered{Messages: 7, Locks: 3, Bytes: 1300, CutBytes: 24}},
		"one refused":  {[]host.PartitionRecovery{ended, refused}, Recovered{Clean: true, Messages: 5, Locks: 1, Bytes: 1000, Refused: []error{damaged}}},
		"new, refused": {[]host.PartitionRecovery{fresh, refused}, Recovered{Clean: true, Refused: []error{damaged}}},
	} {
		c.want.Took = time.Second
		if diff := cmp.Diff(c.want, recovered(c.of, time.Second), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRecoveredAsText(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Recovered{
		"a new data directory": {New: true, Clean: true},
		"0 messages (0 locked) from 0 B of log in 0s; the last run ended cleanly":                     {Clean: true},
		"3 messages (1 locked) from 1023 B of log in 12ms; the last run did not end cleanly":          {Messages: 3, Locks: 1, Bytes: 1023, Took: 12_345 * time.Microsecond},
		"1000000 messages (0 locked) from 1.1 GiB of log in 1.234s; the last run did not end cleanly": {Messages: 1e6, Bytes: 1 << 30 * 11 / 10, Took: 1_234_400 * time.Microsecond},
		"2 messages (2 locked) from 2.0 MiB of log in 1s; the last run did not end cleanly; 1.5 KiB of unacknowledged data at the end were set aside": {
			Messages: 2, Locks: 2, Bytes: 2 << 20, CutBytes: 1536, Took: time.Second},
	} {
		if got := r.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
