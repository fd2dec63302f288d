package host

import (
	"context"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

func testQueue() event.Properties {
	return event.Properties{LockDuration: 30 * time.Second, MaxDeliveryCount: 3, MaxSizeMegabytes: 1024,
		MaxMessageSizeKilobytes: 256, DefaultMessageTimeToLive: event.Forever, AutoDeleteOnIdle: event.Forever}
}

func sessionQueue() event.Properties {
	p := testQueue()
	p.RequiresSession = true
	return p
}

var handEntity = event.Slice{Entity: 1}

// replayed returns the state that a start finds in a log.
func replayed(t testing.TB, p log.Partition) *replay.State {
	t.Helper()
	s := replay.Newest(p, 0, nil)
	if err := s.Run(context.Background(), replay.Watch{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// keptReplies is a sink that keeps all replies.
type keptReplies struct{ got []engine.Reply }

func (p *keptReplies) Post(rs []engine.Reply) { p.got = append(p.got, rs...) }

func code(err error) engine.Code {
	if e, ok := err.(*engine.Error); ok {
		return e.Code
	}
	return 0
}
