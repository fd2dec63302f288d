package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// slowSocket is the time after which a blocked write counts as the cause that delays deliveries.
const slowSocket = 100 * time.Millisecond

// obstacles returns the causes that keep every receiver of a sub-queue from messages.
func obstacles(of engine.Target, partitions []engine.PartitionNow, receivers int, silent bool) (why []string) {
	why = []string{}
	say := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	p := &of.Entity.Properties
	main, forwards := of.SubQueue == event.Main, p.ForwardTo
	if of.SubQueue == event.DeadLetter {
		forwards = p.ForwardDeadLetteredMessagesTo
	}
	if of.Entity.Kind == event.Topic && of.SubQueue != event.TransferDeadLetter {
		say("it is a topic: messages are received from its subscriptions")
	}
	if p.Status == event.Disabled || p.Status == event.ReceiveDisabled {
		say("its status is %v: receiving is not allowed", p.Status)
	}
	if forwards != "" && of.SubQueue != event.TransferDeadLetter {
		say("it forwards to %s: receiving is not allowed", forwards)
	}
	if main && p.RequiresSession {
		say("it has sessions: a receiver gets messages only of a session that it accepts")
	}
	for i := range partitions {
		if n := &partitions[i]; n.Answered && n.MaxAttached > 0 && n.Attached >= n.MaxAttached {
			say("%d receivers are attached, which is the limit: others are refused", n.Attached)
		}
		if t := trouble(&partitions[i]); t != "" {
			say("%s", t)
		}
	}
	if receivers == 0 && !silent && allAnswered(partitions) {
		say("no receiver is attached")
	}
	return why
}

func allAnswered(partitions []engine.PartitionNow) bool {
	return !slices.ContainsFunc(partitions, func(p engine.PartitionNow) bool { return !p.Answered })
}

// trouble returns the cause that keeps a partition from delivering; "": none is known.
func trouble(p *engine.PartitionNow) string {
	has := func(condition string) bool { return slices.Contains(p.Conditions, condition) }
	switch {
	case p.State != engine.PartitionServing:
		return fmt.Sprintf("partition %d is %v", p.ID, p.State)
	case has("disk-hangs"):
		return fmt.Sprintf("the disk of partition %d does not answer: nothing is locked", p.ID)
	case has("disk-full"):
		return fmt.Sprintf("the disk of partition %d is full: writes wait for free space", p.ID)
	case p.Answered:
		return ""
	case p.MaxMail > 0 && p.Mail+2 > p.MaxMail: // its mailbox had no room for the request
		return fmt.Sprintf("the mailbox of partition %d is full: %d requests wait", p.ID, p.Mail)
	case p.Turn > 0:
		return fmt.Sprintf("partition %d does not answer: its turn has taken %v so far", p.ID, p.Turn.Round(time.Millisecond))
	}
	return fmt.Sprintf("partition %d waits for its disk and takes no requests: %d are queued", p.ID, p.Mail)
}

// verdict returns one phrase for what the next delivery of a receiver waits for: the first cause
// that holds, on the way from the client back to the message. A cause further along that way
// matters only once those before it are gone.
func (k *receiverView) verdict(available *int) string {
	if why := k.onConnection(); why != "" {
		return why
	}
	if why := k.inPartitions(); why != "" {
		return why
	}
	return k.inQueue(available)
}

// onConnection returns what the connection waits for; "": nothing.
func (k *receiverView) onConnection() string {
	l := k.link
	if l == nil {
		return k.silent()
	}
	switch {
	case l.Blocked >= slowSocket:
		return fmt.Sprintf("waits for its socket: %d bytes are not written, and the write began %v ago", l.Backlog, l.Blocked.Round(time.Millisecond))
	case l.Window <= 0:
		return "its client takes no transfers: the window of its session is closed"
	case l.NoMemory:
		return "there is no memory for its next message"
	case l.Unread:
		return "the body of its next message cannot be read now"
	case l.Attaching:
		return k.forSession()
	case l.Credit <= 0:
		return "no credit"
	case l.Held >= l.MaxHeld:
		return fmt.Sprintf("its connection holds %d of %d unsettled", l.Held, l.MaxHeld)
	}
	return ""
}

// silent returns the likely reason why a connection does not answer.
func (k *receiverView) silent() string {
	for _, p := range k.partitions {
		if !p.Answered && p.MaxMail > 0 && p.Mail+2 > p.MaxMail {
			return fmt.Sprintf("unknown: its connection does not answer; the mailbox of partition %d is full", p.ID)
		}
	}
	return "unknown: its connection does not answer; it is reading a body, waiting for room in a mailbox, or closed"
}

// forSession returns what a receiver without a session waits for.
func (k *receiverView) forSession() string {
	if t := k.partitionTrouble(); t != "" {
		return t
	}
	return "waits for a session: no free session has messages"
}

// partitionTrouble returns what keeps the partitions from delivering; "": at least one of them can
// deliver.
func (k *receiverView) partitionTrouble() string {
	var all []string
	for _, p := range k.partitions {
		if !k.concerns(p) {
			continue
		}
		t := trouble(p)
		if t == "" {
			return ""
		}
		all = append(all, t)
	}
	return strings.Join(all, "; ")
}

// concerns reports whether the receiver gets messages from a partition. A receiver that holds a
// session gets them only from the partition of that session.
func (k *receiverView) concerns(p *engine.PartitionNow) bool {
	for _, port := range k.ports {
		if port.HasSession {
			return slices.ContainsFunc(p.Ports, func(other engine.PortNow) bool { return other.Receiver == k.of && other.HasSession })
		}
	}
	return true
}

// inPartitions returns what the partitions wait for; "": nothing.
func (k *receiverView) inPartitions() string {
	if t := k.partitionTrouble(); t != "" {
		return t
	}
	late, unwritten := 0, 0
	for _, p := range k.ports {
		late, unwritten = late+p.Late, unwritten+p.Unwritten
	}
	switch {
	case late > 0:
		return "waits for " + plural(late, "earlier request", "earlier requests") + " of its connection; the first is costly"
	case unwritten > 0:
		return plural(unwritten, "delivery waits", "deliveries wait") + " for the disk: a lock is not written or a message is not durable"
	}
	return ""
}

// inQueue returns the receiver's place among the others.
func (k *receiverView) inQueue(available *int) string {
	queued, before, from := int32(0), 0, "" // in the queue with the fewest before it
	for _, p := range k.ports {
		switch {
		case p.SessionFull:
			return fmt.Sprintf("its session %q has reached its limit of locked messages", short(p.Session))
		case p.HasSession:
			from = fmt.Sprintf(" of its session %q", short(p.Session))
		}
		if p.Queued > 0 && (queued == 0 || p.Before < before) {
			queued, before = p.Queued, p.Before
		}
	}
	switch {
	case len(k.ports) == 0:
		return "unknown: no partition knows it yet"
	case queued == 0 && k.link.Unsent > 0:
		return plural(k.link.Unsent, "delivery is", "deliveries are") + " on the way to it"
	case queued == 0:
		return "unknown: its credit is on its way to the partition"
	case available != nil && *available == 0 && before > 0:
		return "nothing to deliver; " + plural(before, "other is", "others are") + " served first"
	case available != nil && *available == 0:
		return "nothing to deliver: it gets the next message" + from
	case before > 0:
		return "waits its turn; " + plural(before, "other is", "others are") + " served first"
	case from != "":
		return "gets the next message" + from + " only"
	}
	return "gets the next message"
}

// plural returns a number with the matching words.
func plural(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
