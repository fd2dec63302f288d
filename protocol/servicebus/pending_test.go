package servicebus

import "testing"

// A tag is that of one request: an answer that comes late does not find the next one in its place.
func TestTagsAreNotUsedAgain(t *testing.T) {
	var table pendings
	tags := map[uint64]bool{}
	for range 100 {
		a, b := table.add(pending{kind: pendingSend}), table.add(pending{kind: pendingReceiver})
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
