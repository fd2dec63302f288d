package sdkgo

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
)

// scenarios is everything the Go SDK is known to do with the broker. The queue is "orders".
var scenarios = []struct {
	name   string
	checks string // statements of semantics.md (SM) and wire-protocol.md (WP)
	queue  func(*event.Properties)
	run    func(*bus)
}{
	{"send and receive", "SM-020 SM-030 SM-045 WP-073 WP-106 WP-107 WP-108 WP-220", nil, sendAndReceive},
	{"every property of a message", "SM-015 SM-037 WP-080 WP-106", nil, everyProperty},
	{"types of application properties", "SM-015 WP-081", nil, propertyTypes},
	{"body with several data sections, a value, a sequence", "SM-015 SM-016 WP-080", nil, bodyKinds},
	{"no message id", "SM-012 WP-082", nil, noMessageID},
	{"annotations of the broker are not the sender's to set", "SM-017 WP-083", nil, forgedAnnotations},
	{"batch", "SM-010 SM-018 WP-078", nil, batch},
	{"batch of one mebibyte", "SM-010 WP-075 WP-078", func(p *event.Properties) { p.MaxMessageSizeKilobytes = 1024 }, bigBatch},
	{"message of 200 KiB", "SM-015 WP-075 WP-131", nil, largeMessage},
	{"message at the limit, with all the broker adds", "SM-015 SM-034", nil, atTheLimit},
	{"message over the limit", "SM-008 WP-077", nil, oversized},
	{"150 sends at once on one link", "SM-002 SM-005 WP-072", nil, manySends},

	{"abandon", "SM-028 SM-032 SM-040 SM-045 WP-109", nil, abandon},
	{"defer", "SM-040 SM-127 WP-110 WP-165", nil, deferring},
	{"dead-letter", "SM-034 SM-040 SM-110 WP-111", nil, deadLetter},
	{"dead-letter without a reason", "SM-034 WP-111", nil, deadLetterWithoutReason},
	{"receive and delete", "SM-021 WP-122", nil, receivingAndDeleting},
	{"second settlement", "SM-031", nil, secondSettlement},
	{"released by the SDK between calls", "SM-039 WP-114", nil, released},
	{"settle after the receiver was closed", "SM-035 SM-036 WP-120", nil, settleAfterClose},
	{"settle with nothing but the token", "SM-036 WP-120 WP-174", nil, settleByToken},
	{"bogus token", "SM-027 WP-163 WP-175", nil, bogusToken},

	{"renew", "SM-024 SM-026 WP-163 WP-164", harness.Lock(time.Second), renew},
	{"lock lost", "SM-033 SM-035 SM-047 WP-118 WP-121", harness.Lock(time.Second), lockLost},
	{"connection cut", "SM-035 SM-045", harness.Lock(time.Second), connectionCut},
	{"ten receivers, two thousand messages", "SM-023 SM-052", nil, tenReceivers},
	{"receivers wait for messages", "SM-029 SM-038 WP-101", nil, waitingReceivers},

	{"maximum delivery count", "SM-100 WP-121", func(p *event.Properties) { p.MaxDeliveryCount = 3 }, maxDeliveryCount},
	{"maximum delivery count by lost locks", "SM-033 SM-100 WP-121",
		func(p *event.Properties) { p.MaxDeliveryCount, p.LockDuration = 2, 500*time.Millisecond }, maxDeliveryCountByLocks},
	{"dead-letter queue: abandon", "SM-104 WP-119", func(p *event.Properties) { p.MaxDeliveryCount = 1 }, deadLetterAbandon},
	{"dead-letter queue: dead-letter", "SM-107", nil, deadLetterTwice},
	{"dead-letter queue: send a copy back", "SM-103 SM-110", nil, resubmit},
	{"dead-letter queue: no sender, any letter case", "SM-101 SM-105", nil, deadLetterPaths},

	{"peek", "SM-140 SM-141 SM-144 SM-145 WP-165 WP-168", nil, peeking},
	{"peek page by page", "SM-142 SM-143 WP-166", nil, peekPages},
	{"peek large messages", "SM-142", nil, peekLarge},
	{"peek the dead-letter queue", "SM-146 WP-185", nil, peekDeadLetters},

	{"time to live", "SM-060 SM-061 SM-062 SM-111", func(p *event.Properties) { p.DeadLetteringOnMessageExpiration = true }, timeToLive},
	{"time to live: dropped", "SM-071", nil, timeToLiveDropped},
	{"time to live: the queue's limit", "SM-067 SM-068", func(p *event.Properties) { p.DefaultMessageTimeToLive = time.Minute }, timeToLiveLimit},
	{"time to live: passes under a lock", "SM-064", func(p *event.Properties) { p.DeadLetteringOnMessageExpiration = true }, timeToLiveLocked},
	{"time to live: lock ends after it", "SM-065 SM-106", func(p *event.Properties) { p.DeadLetteringOnMessageExpiration = true }, timeToLiveAbandoned},

	{"unknown queue", "SM-009 WP-048", nil, unknownQueue},
	{"wrong key", "WP-049", nil, wrongKey},
	{"sessions, schedules, deferred receive: refused by name", "SM-041", nil, notYet},

	{"clean restart", "SM-001 SM-030 SM-053", nil, cleanRestart},
	{"crash while locks are held", "SM-001 SM-030 SM-053", harness.Lock(5 * time.Second), crashWithLocks},
	{"clients find the broker again", "WP-222", nil, reconnect},
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			queue := s.queue
			if queue == nil {
				queue = func(*event.Properties) {}
			}
			s.run(newBus(t, harness.Queue("orders", queue)))
			if t.Failed() {
				t.Log("shows:", s.checks)
			}
		})
	}
}
