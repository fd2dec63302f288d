package servicebus

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// logs is a broker that only answers ReadInto: each partition's log is the given bytes.
type logs struct {
	engine.Broker
	bytes [][]byte
	reads int
}

func (l *logs) ReadInto(p engine.PartitionID, b event.Blob, dst []byte) (int, error) {
	l.reads++
	n := copy(dst, l.bytes[p][b.Position:])
	if !b.Matches(dst[:b.Size]) {
		return 0, errors.New("checksum")
	}
	return n, nil
}

// Bytes read ahead serve the following messages of the same log: another log has other bytes at the
// same positions.
func TestReadAheadKnowsItsLog(t *testing.T) {
	t.Parallel()
	broker := &logs{bytes: [][]byte{bytes.Repeat([]byte("a"), 100), bytes.Repeat([]byte("b"), 100)}}
	var ahead readAhead
	defer ahead.drop()
	for _, c := range []struct {
		host  engine.PartitionID
		at    int
		reads int
	}{{0, 10, 1}, {0, 30, 1}, {1, 30, 2}, {1, 50, 2}, {0, 50, 3}} {
		want := broker.bytes[c.host][c.at : c.at+20]
		got, err := ahead.blob(broker, c.host, &event.Blob{Position: event.Position(c.at), Size: 20, Sum: event.Sum(want)}, true)
		if err != nil || !bytes.Equal(got, want) || broker.reads != c.reads {
			t.Errorf("partition %d at %d: %q after %d reads, want %q after %d; %v", c.host, c.at, got, broker.reads, want, c.reads, err)
		}
	}
}

// The log did not check the bytes that were read ahead: a message in them that differs from the
// stored one is read once more, and refused.
func TestReadAheadIsCompared(t *testing.T) {
	t.Parallel()
	broker := &logs{bytes: [][]byte{bytes.Repeat([]byte("a"), 100)}}
	var ahead readAhead
	defer ahead.drop()
	body := func(at event.Position) *event.Blob {
		return &event.Blob{Position: at, Size: 20, Sum: event.Sum([]byte("aaaaaaaaaaaaaaaaaaaa"))}
	}
	broker.bytes[0][45] ^= 1
	if _, err := ahead.blob(broker, 0, body(10), true); err != nil {
		t.Fatal(err)
	}
	if got, err := ahead.blob(broker, 0, body(40), true); err == nil || broker.reads != 2 {
		t.Errorf("%q after %d reads, %v", got, broker.reads, err)
	}
	if _, err := ahead.blob(broker, 0, body(10), true); err != nil || broker.reads != 3 {
		t.Errorf("what is good cannot be read after %d reads: %v", broker.reads, err)
	}
}
