package servicebus

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// decimal is an encoded decimal: the digits are its constructor and its bytes.
func decimal(digits string) amqp.Opaque {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return amqp.Opaque{Code: b[0], Bytes: b[1:]}
}

// SM-408, WP-239: filters read decimals of each width as numbers, in the standard form and in that
// of .NET, whose frames these are. The bytes are passed on unchanged.
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
			// 12.34
			{"a", "940c3c00000000000000000000000004d2"}, {"b", "74318004d2"}, {"c", "8431800000000004d2"}, {"d", "94303c00000000000000000000000004d2"},
			// 1.0, 1
			{"e", "940c3e000000000000000000000000000a"}, {"f", "94303e000000000000000000000000000a"}, {"g", "940c400000000000000000000000000001"},
			// -9.99
			{"h", "948c3c00000000000000000000000003e7"}, {"i", "94b03c00000000000000000000000003e7"},
			{"j", "940c080000000000000000000000000001"}, {"k", "940c400000ffffffffffffffffffffffff"},
			// the infinite ones, and no number
			{"l", "7478000000"}, {"m", "74f8000000"}, {"n", "747c000000"},
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

// SM-401: .NET can read the decimals that an action writes: a standard decimal128 with 96 bits of
// coefficient and 0 to 28 digits after the point, or a double. Most decimals of this test are
// .NET's. Conditions read the digits that are cut.
func TestDotnetDecimalsInActions(t *testing.T) {
	const thirds = "94300800006bb4afe4cf2607ee35555555" // 29 digits
	bubble(t, nil, func(b *bench) {
		for i, c := range []struct{ sent, filter, action, want string }{
			{"940c3c000000000000000000000000" + "03e7", "m > 9", "SET m = m + 1", "94303c000000000000000000000000" + "044b"},
			{"948c3c000000000000000000000000" + "03e7", "m < 9 AND m IS NOT NULL", "SET m = m + 1", "94b03c000000000000000000000000" + "0383"},
			{"940c3c000000000000000000000000" + "03e7", "m / 3 = p('third')", "SET m = m / 3", "94303c000000000000000000000000" + "014d"},
			{"940c4000000000000000000000000000" + "0a", "m / 3 > p('thirds')", "SET m = m / 3", thirds},
			{"940c400000ffffffffffffffffffffffff", "m = m + 0", "SET m = m - 1", "9430400000fffffffffffffffffffffffe"},
			// half to even
			{"940c0800000000000000000000000000" + "01", "m / 2 > 0", "SET m = m / 2", "94300800000000000000000000000000" + "00"},
			{"940c0800000000000000000000000000" + "03", "m / 2 < m", "SET m = m / 2", "94300800000000000000000000000000" + "02"},
			// a scale of -3
			{"943046000000000000000000000000" + "04d2", "m = 1234000", "SET m = m", "9430400000000000000000000000" + "12d450"},
			{"948c3e00000000000000000000000000" + "00", "m = 0 AND NOT m < 0", "SET m = m", "94b03e00000000000000000000000000" + "00"},
			{"948c3e00000000000000000000000000" + "00", "m IS NOT NULL", "SET m = m + 0", "94303e00000000000000000000000000" + "00"},
			// what no decimal of .NET holds
			{"940c4000000000000000000000000000" + "01", "m < 1e30", "SET m = m * 1e30", "8246293e5939a08cea"},
			{"940c400000ffffffffffffffffffffffff", "m > 1e28", "SET m = m + 1", "8245f0000000000000"},
			{"943041ed09bead87c0378d8e63ffffffff", "m > 1e33", "SET m = m", "8246fed09bead87c03"},
		} {
			topic := fmt.Sprint("t", i)
			b.topic(topic, nil)
			b.subscription(topic, "s", nil, sqlRule("r", c.filter, c.action))
			b.put(topic, with("id", amqp.Pair{Key: "m", Value: decimal(c.sent)}, amqp.Pair{Key: "third", Value: decimal("940c3c000000000000000000000000" + "014d")},
				amqp.Pair{Key: "thirds", Value: decimal(thirds)}))
			got := "nothing"
			for _, m := range b.node(topic + "/Subscriptions/s").peekAll() {
				v, _ := m.application.Get("m")
				got = hex.EncodeToString(amqp.AppendValue(nil, v))
			}
			if got != c.want {
				t.Errorf("%s where %s, %s: %s, want %s", c.sent, c.filter, c.action, got, c.want)
			}
		}
	})
}

// SM-402: a correlation filter with a decimal, as .NET's SDK requests it, is returned as a decimal
// with the same digits.
func TestDotnetDecimalInCorrelationFilter(t *testing.T) {
	topics(t, func(b *bench) {
		p := b.node("t/Subscriptions/u")
		p.managedWith(200, "", "remove-rule", amqp.Map{{Key: "rule-name", Value: "$Default"}})
		rule := correlationRule(nil, amqp.Map{{Key: "dec", Value: decimal("940c3c000000000000000000000000" + "04d2")}})
		p.managedWith(200, "", "add-rule", ruleBody("decimal", append(rule, amqp.Pair{Key: "sql-rule-action"}, amqp.Pair{Key: "rule-name", Value: "decimal"})))
		for _, s := range []struct{ id, price string }{{"same", "940c3c000000000000000000000000" + "04d2"}, {"longer", "940c3a000000000000000000000000" + "3034"},
			{"negative", "948c3c000000000000000000000000" + "04d2"}, {"other", "940c3c000000000000000000000000" + "04d3"}} {
			b.put("t", with(s.id, amqp.Pair{Key: "dec", Value: decimal(s.price)}))
		}
		if got := b.held("t/Subscriptions/u"); got != "same longer" {
			t.Errorf("the filter matches %s, want same longer", got)
		}
		filter := p.rules(int32(0), int32(100))[0][0].(amqp.Described).Value.(amqp.List)
		want := amqp.Map{{Key: "dec", Value: decimal("94303c000000000000000000000000" + "04d2")}}
		if got := filter[len(filter)-1]; !cmp.Equal(got, want) {
			t.Errorf("the rule is shown (-want +got):\n%s", cmp.Diff(want, got))
		}
	})
}
