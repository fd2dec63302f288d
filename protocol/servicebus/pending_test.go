package servicebus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A tag is that of one request: an answer that comes late does not find the next one in its place.
func TestTagsAreNotUsedAgain(t *testing.T) {
	var table pendings
	tags := map[uint64]bool{}
	for range 100 {
		a, b := table.add(pendingEntry{kind: pendingSend}), table.add(pendingEntry{kind: pendingReceiver})
		if tags[a] || tags[b] || table.unanswered != 1 {
			t.Fatalf("tags %x and %x again, or %d unanswered", a, b, table.unanswered)
		}
		tags[a], tags[b] = true, true
		table.remove(a)
		table.remove(a)
		table.remove(b)
	}
	for tag := range tags {
		if e := table.get(tag); e != nil {
			t.Errorf("%x finds %+v", tag, e)
		}
	}
	if len(table.table) != 2 || table.unanswered != 0 {
		t.Errorf("%d places, %d unanswered", len(table.table), table.unanswered)
	}
}

// The counts rise with each entry and fall with its removal, whatever the entry is.
func TestPendingCounts(t *testing.T) {
	var table pendings
	fields := cmp.AllowUnexported(pendings{}, pendingEntry{})
	for _, test := range []struct {
		entry pendingEntry
		want  pendings
	}{
		{pendingEntry{kind: pendingSend, size: 7}, pendings{unanswered: 1, bytes: 7}},
		{pendingEntry{kind: pendingSettle}, pendings{unanswered: 1}},
		{pendingEntry{kind: pendingReceiver}, pendings{}},
		{pendingEntry{kind: pendingDetach}, pendings{detaches: 1}},
		{pendingEntry{kind: pendingRequest, size: 5, expected: 9, request: &request{}}, pendings{unanswered: 1, requests: 1, bytes: 5, expected: 9}},
		{pendingEntry{kind: pendingRequest, request: &request{takes: true}}, pendings{unanswered: 1, requests: 1, taking: 1}},
	} {
		tag := table.add(test.entry)
		for _, want := range []pendings{test.want, {}} {
			got := table
			got.table, got.free = nil, 0
			if !cmp.Equal(got, want, fields) {
				t.Errorf("kind %d counts %+v, not %+v (-want +got):\n%s", test.entry.kind, got, want, cmp.Diff(want, got, fields))
			}
			table.remove(tag)
		}
	}
}
