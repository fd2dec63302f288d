package servicebus

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// decimal is an encoded decimal, of which the digits are its constructor and its bytes.
func decimal(digits string) amqp.Opaque {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return amqp.Opaque{Code: b[0], Bytes: b[1:]}
}

// SM-408, WP-239: filters see decimals of each width as numbers, in the standard form and in that of .NET, whose frames these are. The bytes go on
// as they came.
func TestDecimalsInFilters(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("t", nil)
		for name, filter := range map[string]string{
			"more": "price > 10", "less": "price < 10", "same": "price = 12.34", "whole": "price = 1", "null": "price IS NULL", "there": "EXISTS(price)",
			"sum": "price + 1 > 13 AND price IN (12.34, 5)", "tiny": "price > 0 AND price < 0.000001",
		} {
			b.subscription("t", name, nil, sqlRule("r", filter, ""))
		}
		b.subscription("t", "alike", nil)
		node := b.node("t/Subscriptions/alike")
		node.managedWith(200, "", "remove-rule", amqp.Map{{Key: "rule-name", Value: "$Default"}})
		node.managedWith(200, "", "add-rule", ruleBody("r", correlationRule(nil, amqp.Map{{Key: "price", Value: decimal("940c3c00000000000000000000000004d2")}})))
		sent := []struct{ id, price string }{
			{"a", "940c3c00000000000000000000000004d2"}, {"b", "74318004d2"}, {"c", "8431800000000004d2"}, {"d", "94303c00000000000000000000000004d2"}, // 12.34
			{"e", "940c3e000000000000000000000000000a"}, {"f", "94303e000000000000000000000000000a"}, {"g", "940c400000000000000000000000000001"}, // 1.0, 1
			{"h", "948c3c00000000000000000000000003e7"}, {"i", "94b03c00000000000000000000000003e7"}, // -9.99
			{"j", "940c080000000000000000000000000001"}, {"k", "940c400000ffffffffffffffffffffffff"},
			{"l", "7478000000"}, {"m", "74f8000000"}, {"n", "747c000000"}, // the infinite ones, and no number
		}
		for _, s := range sent {
			b.put("t", with(s.id, amqp.Pair{Key: "price", Value: decimal(s.price)}))
		}
		for name, want := range map[string]string{
			"more": "a b c d k l", "less": "e f g h i j m", "same": "a b c d", "whole": "e f g", "null": "", "there": "a b c d e f g h i j k l m n",
			"sum": "a b c d", "tiny": "j", "alike": "a b c d",
		} {
			if got := b.held("t/Subscriptions/" + name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		for i, m := range b.node("t/Subscriptions/there").peekAll() {
			got, _ := m.application.Get("price")
			if d, ok := got.(amqp.Opaque); !ok || !bytes.Equal(append([]byte{d.Code}, d.Bytes...), append([]byte{decimal(sent[i].price).Code}, decimal(sent[i].price).Bytes...)) {
				t.Errorf("%s went on as %v", sent[i].id, got)
			}
		}
	})
}
