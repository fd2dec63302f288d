package tools_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

var update = flag.Bool("update", false, "write the golden files")

// history returns one event of every kind, in a possible order.
func history() [][]event.Event {
	env := event.Envelope{Slice: event.Slice{Entity: 4, Partition: 1}, Origin: 7}
	base, _ := env.Slice.Numbers()
	self := event.Envelope{Slice: env.Slice}
	token := event.LockToken{0x0f, 1, 2, 3, 4, 5, 0x46, 7, 0x88, 9, 10, 11, 12, 13, 14, 15}
	session := event.LockToken{0xaa, 15: 0xbb}
	at := func(s int) event.Time { return event.Time(1_900_000_000_000 + 1000*s) }
	properties := event.Properties{LockDuration: time.Minute, MaxSizeMegabytes: 1024, MaxMessageSizeKilobytes: 256,
		RequiresDuplicateDetection: true, DuplicateDetectionWindow: 10 * time.Minute, RequiresSession: true,
		DefaultMessageTimeToLive: event.Forever, MaxDeliveryCount: 10, EnableBatchedOperations: true, AutoDeleteOnIdle: event.Forever}
	before := properties
	before.MaxDeliveryCount, before.DefaultMessageTimeToLive, before.EnableBatchedOperations, before.ForwardTo = 3, time.Hour, false, "elsewhere"
	stored := func(seq event.SequenceNumber, id string) *event.MessageEnqueued {
		return &event.MessageEnqueued{Envelope: env, Sequence: seq, MessageID: []byte(id), HasSession: true, InSession: true,
			SessionID: []byte("cart-7"), EnqueuedAt: at(2), Batch: 2, DuplicateUntil: at(602), Body: event.Blob{Data: []byte("body of " + id)}}
	}
	return [][]event.Event{
		{&event.OriginDefined{ID: 7, Origin: event.Origin{Connection: 1, RemoteAddress: "10.0.0.1:99", ContainerID: "shop",
			Product: "sdk 1.2", Principal: "RootManage", Link: "sender-1", Entity: "orders"}},
			&event.EntityCreated{Envelope: env, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{1}, Properties: properties}},
		{stored(base+1, "a"), stored(base+2, "b"), &event.DuplicateDropped{Envelope: env, MessageID: []byte("77"), IDType: event.IDUlong, Original: 1}},
		{&event.MessageEnqueued{Envelope: env, Sequence: base + 3, MessageID: []byte("plain"), TimeToLive: 5 * time.Second, EnqueuedAt: at(3),
			ExpiresAt: at(8), PartitionKey: []byte("north"), Body: event.Blob{Data: []byte("without session")}}},
		{&event.MessageScheduled{Envelope: env, Sequence: base + 4, MessageID: []byte("later"), IDType: event.IDUUID, HasSession: true, InSession: true,
			SessionID: []byte{}, TimeToLive: 90 * time.Minute, ScheduledFor: at(100), DuplicateUntil: at(603), Body: event.Blob{Data: []byte("tomorrow")}}},
		{&event.MessageScheduled{Envelope: env, Sequence: base + 5, MessageID: []byte("never"), ScheduledFor: at(200), Body: event.Blob{Data: []byte("x")}}},
		{&event.ScheduleCancelled{Envelope: env, Sequence: base + 5}},
		{&event.SessionAccepted{Envelope: env, SessionID: []byte("cart-7"), Token: session, LockedUntil: at(64)}},
		{&event.SessionAccepted{Envelope: env, SessionID: []byte{}, Token: event.LockToken{1}, LockedUntil: at(64)}},
		{&event.MessageLocked{Envelope: env, Sequence: base + 1, Token: token}},
		{&event.SessionLockRenewed{Envelope: env, SessionID: []byte("cart-7"), LockedUntil: at(80)}},
		{&event.SessionStateSet{Envelope: env, SessionID: []byte("cart-7"), State: event.Blob{Data: []byte("3 items")}}},
		{&event.SessionStateSet{Envelope: env, SessionID: []byte("cart-7"), Cleared: true}},
		{&event.SessionReleased{Envelope: self, SessionID: []byte("cart-7"), Cause: event.ReleaseExpired,
			Returned: []event.Returned{{Sequence: base + 1, DeliveryCount: 1}, {Sequence: base + 2}}},
			&event.MessageDeadLettered{Envelope: self, Sequence: base + 1, Cause: event.CauseMaxDelivery, Reason: "MaxDeliveryCountExceeded",
				Description: "Message could not be consumed after 1 delivery attempts.", Changes: event.Blob{Data: []byte("map")}}},
		{&event.SessionReleased{Envelope: self, SessionID: []byte{}, Cause: event.ReleaseClosed}},
		{&event.ScheduledActivated{Envelope: self, Sequence: base + 4, NewSequence: base + 6, TimeToLive: 90 * time.Minute, EnqueuedAt: at(100), ExpiresAt: at(5500)}},
		{&event.MessageLocked{Envelope: env, Sequence: base + 1, Token: token, LockedUntil: at(160), DeliveryCount: 1}},
		{&event.LockRenewed{Envelope: env, Sequence: base + 1, Token: token, LockedUntil: at(170)}},
		{&event.MessageReleased{Envelope: env, Sequence: base + 1, Token: token}},
		{&event.MessageLocked{Envelope: env, Sequence: base + 1, Token: token, LockedUntil: at(180), DeliveryCount: 1}},
		{&event.MessageAbandoned{Envelope: env, Sequence: base + 1, Token: token, DeliveryCount: 1, Changes: event.Blob{Data: []byte("map")}}},
		{&event.MessageLocked{Envelope: env, Sequence: base + 1, Token: token, LockedUntil: at(190), DeliveryCount: 1}},
		{&event.LockExpired{Envelope: self, Sequence: base + 1, Token: token, DeliveryCount: 1}},
		{&event.MessageLocked{Envelope: env, Sequence: base + 1, Token: token, LockedUntil: at(200), DeliveryCount: 1}},
		{&event.MessageDeferred{Envelope: env, Sequence: base + 1, Token: token, DeliveryCount: 1}},
		{&event.MessageLocked{Envelope: env, Sequence: base + 1, Token: token, LockedUntil: at(210), DeliveryCount: 1}},
		{&event.MessageCompleted{Envelope: env, Sequence: base + 1, Token: token}},
		{&event.MessageExpired{Envelope: self, Sequence: base + 3, ExpiresAt: at(8)}},
		{&event.MessageReceivedAndDeleted{Envelope: env, Sequence: base + 6}},
		{&event.MessagesBatchDeleted{Envelope: env, Before: at(150), Sequences: []event.SequenceNumber{base + 2}}},
		{&event.EntityUpdated{Envelope: env, Properties: properties, Before: before}, &event.EntityTouched{Envelope: self, AccessedAt: at(120)}},
		{&event.EntityDeleted{Envelope: env, Reason: "idle", EntityKind: event.Queue, Path: "orders", Before: properties}, &event.SliceDropped{Envelope: self}},
	}
}

// topicHistory continues with a topic and a subscription.
func topicHistory() [][]event.Event {
	at := func(s int) event.Time { return event.Time(1_900_000_000_000 + 1000*s) }
	topic, sub := event.Envelope{Slice: event.Slice{Entity: 5}, Origin: 7}, event.Envelope{Slice: event.Slice{Entity: 6}, Origin: 7}
	self := event.Envelope{Slice: topic.Slice}
	properties := event.Properties{MaxSizeMegabytes: 1024, MaxMessageSizeKilobytes: 256, DefaultMessageTimeToLive: event.Forever,
		AutoDeleteOnIdle: event.Forever, EnableBatchedOperations: true, SupportOrdering: true, FilteringBeforePublishing: true,
		AccessRules: []event.AccessRule{
			{Name: "publisher", Rights: event.Rights{event.Send}, Primary: marker + "1", Secondary: marker + "2", CreatedAt: at(30), ModifiedAt: at(30)},
			{Name: "all", Rights: event.Rights{event.Manage, event.Send, event.Listen}, Primary: marker + "3", Secondary: marker + "4", CreatedAt: at(30), ModifiedAt: at(30)},
		}}
	changed := properties
	changed.MaxSizeMegabytes, changed.FilteringBeforePublishing, changed.Status = 2048, false, event.SendDisabled
	changed.AccessRules = slices.Clone(properties.AccessRules[:1])
	changed.AccessRules[0].Primary, changed.AccessRules[0].ModifiedAt = marker+"5", at(40)
	value := func(t event.ValueType, bits uint64, text string) event.Value {
		return event.Value{Type: t, Bits: bits, Text: text}
	}
	sql := event.Rule{Name: "large", CreatedAt: at(32), Filter: event.Filter{Kind: event.SQLFilter, Text: "price > @limit AND region IN (@a, @b)",
		Parameters: []event.Property{
			{Name: "@limit", Value: value(event.Int, 100, "")}, {Name: "@a", Value: value(event.String, 0, "north")}, {Name: "@b", Value: event.Value{}},
			{Name: "@low", Value: value(event.Long, 1<<64-9007199254740993, "")}, {Name: "@yes", Value: value(event.Bool, 1, "")},
			{Name: "@half", Value: value(event.Double, math.Float64bits(0.5), "")}, {Name: "@money", Value: value(event.Decimal, 0, "12.340")},
			{Name: "@id", Value: value(event.UUID, 0, "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10")},
			{Name: "@when", Value: value(event.Instant, 621355968000000000+1_900_000_000*10_000_000+5, "")},
			{Name: "@ago", Value: value(event.Span, 1<<64-(26*3600*10_000_000+1), "")},
		}}, Action: event.Action{Text: "SET priority = @p; REMOVE draft", Parameters: []event.Property{{Name: "@p", Value: value(event.Int, 1, "")}}}}
	rewritten := sql
	rewritten.Filter.Text, rewritten.Filter.Parameters, rewritten.Action = "price > 200", nil, event.Action{}
	correlation := event.Rule{Name: "replies", CreatedAt: at(32), Filter: event.Filter{Kind: event.CorrelationFilter,
		Conditions: []event.Condition{{Field: event.FieldLabel, Text: "reply"}, {Field: event.FieldTo}},
		Properties: []event.Property{{Name: "color", Value: value(event.String, 0, "")}}}}
	return [][]event.Event{
		{&event.EntityCreated{Envelope: topic, EntityKind: event.Topic, Path: "news", HashVersion: 1, Hosts: []byte{0}, Properties: properties}},
		{&event.EntityCreated{Envelope: sub, EntityKind: event.Subscription, Path: "news/Subscriptions/all", HashVersion: 1, Hosts: []byte{0}, Topic: 5,
			Properties: event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10, DeadLetteringOnFilterError: true}},
			&event.RuleAdded{Envelope: sub, Rule: event.Rule{Name: "$Default", Filter: event.Filter{Kind: event.TrueFilter}, CreatedAt: at(31)}}},
		{&event.RuleAdded{Envelope: sub, Rule: sql}, &event.RuleAdded{Envelope: sub, Rule: correlation}},
		{&event.MessagePublished{Envelope: topic, Sequence: 1, MessageID: []byte("p"), HasSession: true, SessionID: []byte("cart-7"), EnqueuedAt: at(33),
			TimeToLive: 5 * time.Second, DuplicateUntil: at(633), Body: event.Blob{Data: []byte("shared")}, Copies: []event.Copy{
				{Subscription: 6, Sequence: 1, OwnTTL: true, ExpiresAt: at(38)},
				{Subscription: 6, Sequence: 2, OwnTTL: true, ExpiresAt: at(38), Rule: "large", Changes: event.Blob{Data: []byte("list")}},
				{Subscription: 6, Sequence: 3, Cause: event.CauseFilter, Reason: "FilterException", Description: "Rule 'replies': division by zero",
					Changes: event.Blob{Data: []byte("map")}},
				{Subscription: 8, Sequence: 1, InSession: true, SessionID: []byte("cart-7")},
				{Subscription: 8, Sequence: 2, InSession: true, SessionID: []byte{}, Rule: "large", Changes: event.Blob{Data: []byte("other list")}},
			}}},
		{&event.MessagePublished{Envelope: topic, Sequence: 2, MessageID: []byte("nobody"), EnqueuedAt: at(34)}},
		{&event.MessageScheduled{Envelope: topic, Sequence: 3, MessageID: []byte("s"), ScheduledFor: at(35), Body: event.Blob{Data: []byte("later")}}},
		{&event.ScheduledPublished{Envelope: self, Sequence: 3, NewSequence: 4, EnqueuedAt: at(36), Copies: []event.Copy{
			{Subscription: 6, Sequence: 4}, {Subscription: 8, Sequence: 3, Cause: event.CauseNoSession, Reason: "Session id is null.", Description: "none"}}}},
		{&event.RuleUpdated{Envelope: sub, Rule: rewritten, Before: sql}, &event.RuleRemoved{Envelope: sub, Rule: correlation}},
		{&event.EntityUpdated{Envelope: topic, Properties: changed, Before: properties}},
		{&event.EntityDeleted{Envelope: sub, Reason: "client", EntityKind: event.Subscription, Path: "news/Subscriptions/all",
			Before: event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10, DeadLetteringOnFilterError: true}},
			&event.EntityDeleted{Envelope: topic, Reason: "client", EntityKind: event.Topic, Path: "news", Before: changed}},
		{&event.SliceDropped{Envelope: self}, &event.SliceDropped{Envelope: event.Envelope{Slice: sub.Slice}}},
		{&event.ClockSet{Number: 1, Basis: event.BasisWall, From: at(1000), To: at(400), Wall: at(400)}},
	}
}

// facts continues with events that change nothing, and with data about a message other than its
// body.
func facts() [][]event.Event {
	at := func(s int) event.Time { return event.Time(1_900_000_000_000 + 1000*s) }
	queue := event.Envelope{Slice: event.Slice{Entity: 9}, Origin: 8}
	token := event.LockToken{0x0f, 1, 2, 3, 4, 5, 0x46, 7, 0x88, 9, 10, 11, 12, 13, 14, 15}
	return [][]event.Event{
		{&event.RunStarted{Version: "0.5.0", Settings: "sha256:0011223344556677", Stop: event.StopKilled, Cut: 4096}},
		{&event.OriginDefined{ID: 8, Origin: event.Origin{Connection: 2, RemoteAddress: "10.0.0.2:7", ContainerID: "till", Principal: "RootManage", Link: "r-1", Entity: "tills"}},
			&event.LinkOpened{Envelope: queue, Role: event.Receiver, SubQueue: event.DeadLetter, InSession: true, SessionID: []byte("cart-7")}},
		{&event.SettlementRefused{Envelope: queue, Sequence: 3, Token: token, Wanted: event.WantedComplete, Why: event.RefusedLockLost, Missed: 40}},
		{&event.SendsRefused{Envelope: queue, Why: event.RefusedFull, Count: 1200, Since: at(44)}},
		{&event.ReasonGiven{Envelope: queue, Reason: "the wrong tills were told", TrackingID: "8c0e2b4e"}},
		{&event.LinkClosed{Envelope: queue, Cause: event.ClosedByBroker, Condition: "amqp:link:detach-forced", Description: "idle for 10 minutes"}},
		{&event.MessageEnqueued{Envelope: queue, Sequence: 1, MessageID: []byte("told"), EnqueuedAt: at(47), Body: event.Blob{Data: []byte("with details")},
			Details: event.Details{BodySize: 12, Subject: []byte("receipt"), CorrelationID: []byte("order-1"), ContentType: []byte("application/json"),
				TraceParent: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
				Source:      event.Source{Relation: event.Resubmitted, Slice: event.Slice{Entity: 6, Partition: 1}, Sequence: 77}}}},
	}
}

// moves continues with messages that move, and with a transaction.
func moves() [][]event.Event {
	at := func(s int) event.Time { return event.Time(1_900_000_000_000 + 1000*s) }
	queue := event.Envelope{Slice: event.Slice{Entity: 9}, Origin: 8}
	self, topic := event.Envelope{Slice: queue.Slice}, event.Envelope{Slice: event.Slice{Entity: 10}}
	token := event.LockToken{0x0e, 15: 0xe0}
	transaction := event.TransactionID{0xab, 15: 0xcd}
	from := event.Slice{Entity: 6, Partition: 1}
	arrived := func(n event.TransferNumber) *event.Arrival {
		return &event.Arrival{Source: from, Number: n, Floor: 3, Hops: 2, First: 77}
	}
	long := arrived(4)
	long.DeadLetterSource, long.Changes = "north/tills", event.Blob{Data: []byte("what it became")}
	return [][]event.Event{
		{&event.MessageEnqueued{Envelope: self, Sequence: 2, MessageID: []byte("moved"), EnqueuedAt: at(50), Body: event.Blob{Data: []byte("here now")}, Arrival: long}},
		{&event.DuplicateDropped{Envelope: self, MessageID: []byte("moved"), Original: 2, Arrival: arrived(3)}},
		{&event.MessagePublished{Envelope: topic, Sequence: 1, MessageID: []byte("moved"), EnqueuedAt: at(51), Arrival: arrived(6)}},
		{&event.TransferStarted{Envelope: self, Destination: 10, Trigger: event.TriggerForward, First: 1, Sequences: []event.SequenceNumber{1, 2}}},
		{&event.TransferFailed{Envelope: self, Number: 2, Sequence: 2, SubQueue: event.TransferDeadLetter, Why: event.RefusedTooLarge, Reason: "MessageSizeExceededException",
			Description: "The message is too large.", Changes: event.Blob{Data: []byte("map")}},
			&event.TransfersFinished{Envelope: self, Numbers: []event.TransferNumber{1}}},
		{&event.NumbersReserved{Envelope: queue, First: 3, Count: 2}},
		{&event.MessageEnqueued{Envelope: queue, Sequence: 5, MessageID: []byte("in"), EnqueuedAt: at(54), Body: event.Blob{Data: []byte("in")}}},
		{&event.MessageLocked{Envelope: queue, Sequence: 5, Token: token, LockedUntil: at(114)}},
		{&event.TransactionCommitted{Envelope: queue, ID: transaction, Operations: 3, DeclaredAt: at(53)},
			&event.MessageCompleted{Envelope: queue, Sequence: 5, Token: token},
			&event.MessageScheduled{Envelope: queue, Sequence: 3, MessageID: []byte("soon"), ScheduledFor: at(99), Body: event.Blob{Data: []byte("soon")}, Reserved: true},
			&event.MessageHandedOver{Envelope: queue, Sequence: 6, MessageID: []byte("out"), HasSession: true, SessionID: []byte("cart-7"), TimeToLive: time.Hour,
				EnqueuedAt: at(56), Body: event.Blob{Data: []byte("out")}, Destination: 10, Number: 3, Details: event.Details{BodySize: 3}}},
		{&event.TransactionAborted{Envelope: queue, ID: event.TransactionID{1}, Cause: event.AbortTimedOut}},
		{&event.MessageEnqueued{Envelope: self, Sequence: 7, MessageID: []byte("far"), EnqueuedAt: at(58), Body: event.Blob{Data: []byte("far")}, Arrival: arrived(8)}},
		{&event.MessageDeadLettered{Envelope: self, Sequence: 7, Cause: event.CauseHopLimit, Reason: "MaxTransferHopCountExceeded", SubQueue: event.TransferDeadLetter,
			Changes: event.Blob{Data: []byte("map")}}},
		{&event.SourceForgotten{Envelope: self, Source: from}},
		{&event.PartitionFenced{LogPartition: 3, Cause: event.FencedByError, Error: "input/output error"}},
		{&event.PartitionFenced{Envelope: event.Envelope{Origin: 8}, LogPartition: 2, Cause: event.FencedByOperator}, &event.ReasonGiven{Reason: "a new disk"}},
		{&event.PartitionRestarted{Envelope: event.Envelope{Origin: 8}, LogPartition: 3, Refused: true}},
		{&event.HistoryPolicySet{Policy: event.HistoryPolicy{Events: event.KeepFor(7 * 24 * time.Hour), Undo: event.KeepForever}, Share: 20, BeforeSends: true}},
		{&event.HistoryPolicySet{Envelope: event.Envelope{Origin: 8}, Pattern: "Orders/*", Policy: event.HistoryPolicy{Bodies: event.KeepNone}}, &event.ReasonGiven{Reason: "personal data"}},
		{&event.HistoryPolicySet{Envelope: event.Envelope{Origin: 8}, Pattern: "Orders/*", Removed: true}},
		{&event.BackupMarked{ID: event.BackupID{0xba, 15: 0xcc}, Logs: 4}},
		{&event.BodyErased{Envelope: event.Envelope{Slice: queue.Slice, Origin: 8}, Sequence: 1, Position: 152, Size: 9}, &event.ReasonGiven{Reason: "a customer asked"}},
		{&event.ErasureFinished{Envelope: event.Envelope{Slice: queue.Slice}, Sequence: 1, Position: 152}},
		{&event.HistoryCut{LogPartition: 3, Cause: event.CutForRoom, First: 67_108_872, Bytes: 41_943_040}},
	}
}

// everyFieldShown checks that a dump contains each field of each kind of event. A field that is
// zero in every event of a kind is not printed, so its form would be untested.
func everyFieldShown(t *testing.T, dump []byte) {
	t.Helper()
	shown := make(map[string][]any)
	for line := range bytes.Lines(dump) {
		var ev map[string]any
		if err := json.Unmarshal(line, &ev); err != nil {
			t.Fatal(err)
		}
		name, _ := ev["Event"].(string)
		shown[name] = append(shown[name], ev)
	}
	var pool event.Pool
	for k := range event.Kind(255) {
		if ev := pool.New(k); ev != nil && !ofBase(k) {
			for _, name := range unseen(k.String(), shown[k.String()], reflect.TypeOf(ev).Elem()) {
				t.Errorf("%s is in no event of testdata/fields.json", name)
			}
		}
	}
}

// unseen returns the fields of a struct that none of these objects has.
func unseen(path string, of []any, t reflect.Type) (list []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			var all []any
			for _, one := range of {
				elements, _ := one.([]any)
				all = append(all, elements...)
			}
			of = all
		}
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[event.Slice](), reflect.TypeFor[event.Blob](), reflect.TypeFor[event.Returned](), reflect.TypeFor[event.Property](), reflect.TypeFor[event.Value]():
		return nil // printed as a whole
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, name := range names(path, t) {
		var values []any
		for _, one := range of {
			if m, ok := one.(map[string]any); ok && m[name] != nil {
				values = append(values, m[name])
			}
		}
		if len(values) == 0 {
			list = append(list, path+"."+name)
		} else if f, ok := t.FieldByName(name); ok {
			list = append(list, unseen(path+"."+name, values, f.Type)...)
		}
	}
	return list
}

// TestDumpGolden (SM-372): every event is printed with all its fields, as text and as JSON, and the
// history it is part of is good.
func TestDumpGolden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 1})
	for _, capability := range []string{log.Backups, log.Cuts, log.Erased, log.Erasures, log.Fences, log.Moves, log.Policies, log.Transactions} {
		if err := d.Use(capability); err != nil {
			t.Fatal(err)
		}
	}
	_, w := d.Lead(0)
	seen := map[event.Kind]bool{}
	b := w.Batch() // one frame: how long the disk takes does not show
	records := slices.Concat(history(), topicHistory(), facts(), moves())
	for i, events := range records {
		b.AppendRecord(event.Time(1_900_000_000_000+1000*i), events, log.Durable)
		for _, ev := range events {
			seen[ev.Kind()] = true
		}
	}
	for k := range event.Kind(255) {
		if k.String() != "" && !seen[k] && !ofBase(k) {
			t.Errorf("no %v in the history", k)
		}
	}
	w.Append(b)
	d.Close()
	// events outside any history, each with all its fields
	filledDir := write(t, [][]event.Event{filled("text ")}, false)
	for _, c := range []struct {
		name, dir string
		opts      tools.DumpOptions
	}{
		{"dump.txt", dir, tools.DumpOptions{}}, {"dump.json", dir, tools.DumpOptions{JSON: true, Bodies: true}},
		{"fields.txt", filledDir, tools.DumpOptions{}}, {"fields.json", filledDir, tools.DumpOptions{JSON: true, Bodies: true}},
	} {
		name, dir, opts := c.name, c.dir, c.opts
		var got bytes.Buffer
		if err := tools.Dump(&got, dir, opts); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got.String(), string(marker)) {
			t.Errorf("%s shows a key", name)
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
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
			t.Errorf("%s differs (go test ./tools -run Golden -update, and look at the difference) (-want +got):\n%s", name, diff)
		}
		if name == "fields.json" {
			everyFieldShown(t, want)
		}
	}
	var out bytes.Buffer
	if r, err := tools.Verify(&out, dir, tools.VerifyOptions{}); err != nil || len(r.Damaged) > 0 || r.Records != uint64(len(records)) {
		t.Errorf("%v %+v\n%s; want len(r.Damaged) <= 0 && r.Records == uint64(len(records))", err, r, out.String())
	}
}
