package servicebus

import (
	"bytes"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// logs is a broker of which only ReadAt is asked: each partition's log is the bytes given.
type logs struct {
	engine.Broker
	bytes [][]byte
	reads int
}

func (l *logs) ReadAt(p engine.PartitionID, at event.Position, dst []byte) (int, error) {
	l.reads++
	return copy(dst, l.bytes[p][at:]), nil
}

// What was read ahead serves the messages behind it, of the same log: another has other bytes at the same places.
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
