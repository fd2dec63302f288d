package tools_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools"
)

var update = flag.Bool("update", false, "write the golden files")

// history is one of every event, in an order that could have been.
func history() [][]event.Event {
	env := event.Envelope{Slice: event.Slice{Entity: 4, Partition: 1}, Origin: 7}
	self := event.Envelope{Slice: env.Slice}
	token := event.LockToken{0x0f, 1, 2, 3, 4, 5, 0x46, 7, 0x88, 9, 10, 11, 12, 13, 14, 15}
	session := event.LockToken{0xaa, 15: 0xbb}
	at := func(s int) event.Time { return event.Time(1_900_000_000_000 + 1000*s) }
	properties := event.Properties{LockDuration: time.Minute, MaxSizeMegabytes: 1024, MaxMessageSizeKilobytes: 256,
		RequiresDuplicateDetection: true, DuplicateDetectionWindow: 10 * time.Minute, RequiresSession: true,
		DefaultMessageTimeToLive: event.Forever, MaxDeliveryCount: 10, EnableBatchedOperations: true, AutoDeleteOnIdle: event.Forever}
	stored := func(seq event.SequenceNumber, id string) *event.MessageEnqueued {
		return &event.MessageEnqueued{Envelope: env, Sequence: seq, MessageID: []byte(id), HasSession: true, InSession: true,
			SessionID: []byte("cart-7"), EnqueuedAt: at(2), Batch: 2, DuplicateUntil: at(602), Body: event.Blob{Data: []byte("body of " + id)}}
	}
	return [][]event.Event{
		{&event.OriginDefined{ID: 7, Origin: event.Origin{Connection: 1, RemoteAddress: "10.0.0.1:99", ContainerID: "shop",
			Product: "sdk 1.2", Principal: "RootManage", Link: "sender-1", Entity: "orders"}},
			&event.EntityCreated{Envelope: env, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{1}, Properties: properties}},
		{stored(1, "a"), stored(2, "b"), &event.DuplicateDropped{Envelope: env, MessageID: []byte("77"), IDType: event.IDUlong, Original: 1}},
		{&event.MessageEnqueued{Envelope: env, Sequence: 3, MessageID: []byte("plain"), TimeToLive: 5 * time.Second, EnqueuedAt: at(3),
			ExpiresAt: at(8), PartitionKey: []byte("north"), Body: event.Blob{Data: []byte("without session")}}},
		{&event.MessageScheduled{Envelope: env, Sequence: 4, MessageID: []byte("later"), IDType: event.IDUUID, HasSession: true, InSession: true,
			SessionID: []byte{}, TimeToLive: 90 * time.Minute, ScheduledFor: at(100), DuplicateUntil: at(603), Body: event.Blob{Data: []byte("tomorrow")}}},
		{&event.MessageScheduled{Envelope: env, Sequence: 5, MessageID: []byte("never"), ScheduledFor: at(200), Body: event.Blob{Data: []byte("x")}}},
		{&event.ScheduleCancelled{Envelope: env, Sequence: 5}},
		{&event.SessionAccepted{Envelope: env, SessionID: []byte("cart-7"), Token: session, LockedUntil: at(64)}},
		{&event.SessionAccepted{Envelope: env, SessionID: []byte{}, Token: event.LockToken{1}, LockedUntil: at(64)}},
		{&event.MessageLocked{Envelope: env, Sequence: 1, Token: token}},
		{&event.SessionLockRenewed{Envelope: env, SessionID: []byte("cart-7"), LockedUntil: at(80)}},
		{&event.SessionStateSet{Envelope: env, SessionID: []byte("cart-7"), State: event.Blob{Data: []byte("3 items")}}},
		{&event.SessionStateSet{Envelope: env, SessionID: []byte("cart-7"), Cleared: true}},
		{&event.SessionReleased{Envelope: self, SessionID: []byte("cart-7"), Cause: event.ReleaseExpired,
			Returned: []event.Returned{{Sequence: 1, DeliveryCount: 1}, {Sequence: 2}}},
			&event.MessageDeadLettered{Envelope: self, Sequence: 1, Cause: event.CauseMaxDelivery, Reason: "MaxDeliveryCountExceeded",
				Description: "Message could not be consumed after 1 delivery attempts.", Changes: event.Blob{Data: []byte("map")}}},
		{&event.SessionReleased{Envelope: self, SessionID: []byte{}, Cause: event.ReleaseClosed}},
		{&event.ScheduledActivated{Envelope: self, Sequence: 4, NewSequence: 6, TimeToLive: 90 * time.Minute, EnqueuedAt: at(100), ExpiresAt: at(5500)}},
		{&event.MessageLocked{Envelope: env, Sequence: 1, Token: token, LockedUntil: at(160), DeliveryCount: 1}},
		{&event.LockRenewed{Envelope: env, Sequence: 1, Token: token, LockedUntil: at(170)}},
		{&event.MessageReleased{Envelope: env, Sequence: 1, Token: token}},
		{&event.MessageLocked{Envelope: env, Sequence: 1, Token: token, LockedUntil: at(180), DeliveryCount: 1}},
		{&event.MessageAbandoned{Envelope: env, Sequence: 1, Token: token, DeliveryCount: 1, Changes: event.Blob{Data: []byte("map")}}},
		{&event.MessageLocked{Envelope: env, Sequence: 1, Token: token, LockedUntil: at(190), DeliveryCount: 1}},
		{&event.LockExpired{Envelope: self, Sequence: 1, Token: token, DeliveryCount: 1}},
		{&event.MessageLocked{Envelope: env, Sequence: 1, Token: token, LockedUntil: at(200), DeliveryCount: 1}},
		{&event.MessageDeferred{Envelope: env, Sequence: 1, Token: token, DeliveryCount: 1}},
		{&event.MessageLocked{Envelope: env, Sequence: 1, Token: token, LockedUntil: at(210), DeliveryCount: 1}},
		{&event.MessageCompleted{Envelope: env, Sequence: 1, Token: token}},
		{&event.MessageExpired{Envelope: self, Sequence: 3, ExpiresAt: at(8)}},
		{&event.MessageReceivedAndDeleted{Envelope: env, Sequence: 6}},
		{&event.MessagesBatchDeleted{Envelope: env, Before: at(150), Sequences: []event.SequenceNumber{2}}},
		{&event.EntityUpdated{Envelope: env, Properties: properties}, &event.EntityTouched{Envelope: self, AccessedAt: at(120)}},
		{&event.EntityDeleted{Envelope: env, Reason: "idle"}, &event.SliceDropped{Envelope: self}},
	}
}

// TestDumpGolden (SM-372): every event is printed with all its fields, as text and as JSON, and the history it is part of is good.
func TestDumpGolden(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	s, err := log.Open(ctx, dir, log.Options{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Open(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.Lead(ctx)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[event.Kind]bool{}
	b := w.Batch() // one frame: how long the disk takes does not show
	for i, events := range history() {
		b.AppendRecord(event.Time(1_900_000_000_000+1000*i), events, log.Durable)
		for _, ev := range events {
			seen[ev.Kind()] = true
		}
	}
	for k := range event.Kind(255) {
		if k.String() != "" && !seen[k] {
			t.Errorf("no %v in the history", k)
		}
	}
	w.Append(b)
	if err := errors.Join(w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]tools.DumpOptions{"dump.txt": {}, "dump.json": {JSON: true, Bodies: true}} {
		var got bytes.Buffer
		if err := tools.Dump(&got, dir, opts); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != string(want) {
			t.Errorf("%s differs (go test ./tools -run Golden -update, and look at the difference):\n%s", name, got.String())
		}
	}
	var out bytes.Buffer
	if r, err := tools.Verify(&out, dir); err != nil || len(r.Damaged) > 0 || r.Records != uint64(len(history())) {
		t.Errorf("%v %+v\n%s", err, r, out.String())
	}
}
