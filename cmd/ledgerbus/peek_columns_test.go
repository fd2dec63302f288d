package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

// at --messages shows the columns of peek in its order, and then those that only history has.
func TestMessagesHaveTheColumnsOfPeek(t *testing.T) {
	t.Parallel()
	var peek []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[client.Message]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		peek = append(peek, strings.ToLower(name))
	}
	columns := ledger.MessageColumns
	if columns[0] != "Message" {
		t.Errorf("the first column is %s; want the address", columns[0])
	}
	at := 0
	for _, c := range columns[1 : len(columns)-3] {
		for at < len(peek) && peek[at] != strings.ToLower(c) {
			at++
		}
		if at == len(peek) {
			t.Errorf("peek has no %s, or has it before others", c)
		}
	}
}
