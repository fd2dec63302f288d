package engine

import (
	"testing"
	"unsafe"
)

// A reply is copied several times on its way from the decision to the link, and there is one for
// every message.
func TestReplyIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Reply{}); size > 48 {
		t.Errorf("a reply has %d bytes", size)
	}
}
