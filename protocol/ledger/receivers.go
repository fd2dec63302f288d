package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// lookTime bounds the time for the partitions' answers, and then that for the connections'.
	lookTime = time.Second
	// namedRefusals is the maximum number of refused links in an answer: the newest.
	namedRefusals = 10
)

// receivers answers with the state of a sub-queue and the cause that each of its receivers waits
// for.
func (c *call) receivers(ctx context.Context) (any, error) {
	path, err := c.entityPath()
	if err != nil {
		return nil, err
	}
	if i := len(path) - len("$dlq"); i > 0 && strings.EqualFold(path[i:], "$dlq") {
		path = path[:i] + "$DeadLetterQueue"
	}
	of, err := c.h.Live.Resolve(path)
	if err != nil {
		return nil, err
	}
	short, cancel := context.WithTimeout(ctx, lookTime)
	partitions := c.h.Live.Receiving(short, of)
	cancel()
	short, cancel = context.WithTimeout(ctx, lookTime)
	defer cancel()
	list := showReceivers(of, partitions, c.h.Receivers(short, of))
	list.At = c.h.Now().Std().UTC()
	return list, nil
}

// showReceivers joins the knowledge of partitions and connections.
func showReceivers(of engine.Target, partitions []engine.PartitionNow, links engine.LinksNow) rows.Receivers {
	list := rows.Receivers{Entity: address.Address{Entity: of.Entity.Path, SubQueue: of.SubQueue}.Path(), Silent: links.Silent,
		Partitions: []rows.ReceiverPartition{}, Receivers: []rows.Receiver{}, Refused: []rows.RefusedReceiver{}}
	list.Messages, list.Available = sumMessages(partitions)
	for i := range partitions {
		p := &partitions[i]
		list.Partitions = append(list.Partitions, rows.ReceiverPartition{ID: int(p.ID), State: p.State.String(), Trouble: trouble(p), Requests: p.Mail, Late: p.Late})
	}
	all := joinReceivers(partitions, links.Links)
	list.Why = obstacles(of, partitions, len(all), len(links.Silent) > 0)
	if list.More = max(0, len(all)-rows.Max); list.More > 0 {
		all = all[:rows.Max]
	}
	for _, k := range all {
		list.Receivers = append(list.Receivers, k.shown(list.Available))
	}
	refused := links.Refused[max(0, len(links.Refused)-namedRefusals):]
	for _, r := range refused {
		list.Refused = append(list.Refused, rows.RefusedReceiver{At: r.At.UTC(), Remote: r.Origin.RemoteAddress, Client: r.Origin.Product, Condition: r.Condition, Text: r.Text})
	}
	return list
}

// sumMessages adds up the counts of the partitions. It returns nil unless all of them have
// answered.
func sumMessages(partitions []engine.PartitionNow) (sum *rows.Counts, available *int) {
	sum, available = &rows.Counts{}, new(int)
	for _, p := range partitions {
		n := p.Messages
		if n == nil {
			return nil, nil
		}
		sum.Active, sum.Locked, sum.Deferred = sum.Active+n.Active, sum.Locked+n.Locked, sum.Deferred+n.Deferred
		sum.Scheduled, sum.Transfer = sum.Scheduled+n.Scheduled, sum.Transfer+n.Transfer
		sum.DeadLetter, sum.TransferDeadLetter = sum.DeadLetter+n.DeadLetter, sum.TransferDeadLetter+n.TransferDeadLetter
		sum.SizeBytes += n.Bytes
		*available += n.Available
	}
	sum.Messages = sum.Active + sum.Scheduled + sum.DeadLetter + sum.Transfer + sum.TransferDeadLetter
	return sum, available
}

// receiverView is the joined knowledge about one receiver.
type receiverView struct {
	of         *engine.Receiver
	link       *engine.LinkNow // nil: its connection has not answered
	ports      []*engine.PortNow
	partitions []*engine.PartitionNow // partitions that it receives from
}

// joinReceivers joins the knowledge about each receiver, ordered by connection and link.
func joinReceivers(partitions []engine.PartitionNow, links []engine.LinkNow) []*receiverView {
	byReceiver := map[*engine.Receiver]*receiverView{}
	find := func(r *engine.Receiver) *receiverView {
		k := byReceiver[r]
		if k == nil {
			k = &receiverView{of: r}
			for i := range partitions {
				if slices.Contains(r.Hosts(), partitions[i].ID) && r.At(partitions[i].ID) != 0 {
					k.partitions = append(k.partitions, &partitions[i])
				}
			}
			byReceiver[r] = k
		}
		return k
	}
	for i := range links {
		find(links[i].Receiver).link = &links[i]
	}
	for i := range partitions {
		for j := range partitions[i].Ports {
			p := &partitions[i].Ports[j]
			k := find(p.Receiver)
			k.ports = append(k.ports, p)
		}
	}
	all := make([]*receiverView, 0, len(byReceiver))
	for _, k := range byReceiver {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *receiverView) int {
		return cmp.Or(cmp.Compare(a.of.Origin.Connection, b.of.Origin.Connection), cmp.Compare(a.of.Origin.Link, b.of.Origin.Link), cmp.Compare(a.of.Tag, b.of.Tag))
	})
	return all
}

// shown returns a receiver as the answer has it.
func (k *receiverView) shown(available *int) rows.Receiver {
	o := k.of.Origin
	w := rows.Receiver{Connection: o.Connection, Remote: o.RemoteAddress, Client: short(o.Product), Container: short(o.ContainerID),
		By: short(o.Principal), Link: short(o.Link), Since: timeOf(k.of.Since), Verdict: k.verdict(available)}
	if l := k.link; l != nil {
		w.Credit, w.Passed, w.Unsettled, w.Unsent = &l.Credit, &l.Passed, &l.Unsettled, &l.Unsent
		w.Locks, w.LockedUntil = &l.Locks, timeOf(l.LockedUntil)
	}
	for _, p := range k.ports {
		if w.InLoop == nil {
			left := max(0, p.Credit)
			w.InLoop = &left
		}
		if p.HasSession {
			id := short(p.Session)
			w.Session, w.LockedUntil = &id, timeOf(p.SessionUntil)
		}
	}
	return w
}

// timeOf returns a time for an answer; nil: there is none.
func timeOf(t event.Time) *time.Time {
	if t == 0 {
		return nil
	}
	at := t.Std().UTC()
	return &at
}

// short cuts a text of the client to 100 bytes, so that all receivers together fit into an answer.
func short(text string) string { return fmt.Sprintf("%.100s", text) }
