package tools

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// bodylessPartition is a partition whose history keeps no bodies.
type bodylessPartition struct{ log.Partition }

func (bodylessPartition) ReadBlob(_ event.Blob, dst []byte) ([]byte, error) {
	return dst, event.ErrErased
}

func (l bodylessPartition) Segments() []log.SegmentInfo {
	list := l.Partition.Segments()
	list[0].Erased = 1
	return list
}

// Erased bodies are shown as erased and are not damage.
func TestErased(t *testing.T) {
	t.Parallel()
	d := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	defer d.Close()
	p, w := d.Lead(0)
	d.Append(w, 1, &event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 1}}, Sequence: 1, MessageID: []byte("m"), Body: event.Blob{Data: []byte("gone")}})
	for _, c := range []struct {
		json         bool
		dump, verify string
	}{
		{false, " BodySize=4 ", "erased file \"partitions/00/wal/0000000001/00000000000000000001\": 1 frames without all of their bodies\n"},
		{true, `"BodySize":4,`, `{"Found":"erased","Partition":0,"File":"partitions/00/wal/0000000001/00000000000000000001","Frames":1}` + "\n"},
	} {
		var b bytes.Buffer
		out := bufio.NewWriter(&b)
		dump := newDumper(out, DumpOptions{Bodies: true, JSON: c.json}, bodylessPartition{p})
		if err := errors.Join(dump.run(t.Context()), out.Flush()); err != nil {
			t.Fatal(err)
		}
		if s := b.String(); !strings.Contains(s, c.dump) || !strings.Contains(s, "BodyErased") || strings.Contains(s, "gone") {
			t.Errorf("dump shows %s", s)
		}
		b.Reset()
		v := verifier{ctx: t.Context(), out: &b, opts: VerifyOptions{JSON: c.json}}
		if err := v.partition(bodylessPartition{p}); err != nil || v.report.Places != 0 {
			t.Errorf("%d damaged places, %v", v.report.Places, err)
		}
		if s := b.String(); !strings.Contains(s, c.verify) {
			t.Errorf("verify says %s, want %s", s, c.verify)
		}
	}
}
