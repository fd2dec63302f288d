package filter

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// test is a compiled correlation filter: properties and the values they must have (semantics.md
// 15.3).
type test struct {
	asked  []askedProperty // ordered by key, so that filters on the same properties are alike
	values []event.Value   // that the properties must have
}

// askedProperty is a property that correlation filters test.
type askedProperty struct {
	system SystemProperty // SystemCount: the application property with the name
	name   string
	hash   uint64
	key    string // the same for all spellings of the name
}

func newTest(f *event.Filter) (*test, *Error) {
	t := &test{}
	type pair struct {
		askedProperty
		value event.Value
	}
	var pairs []pair
	for _, c := range f.Conditions {
		if int(c.Field) >= len(fields) || c.Field == 0 {
			return nil, &Error{Part: "filter", Text: "a condition names a field that correlation filters do not have"}
		}
		p := fields[c.Field]
		pairs = append(pairs, pair{askedProperty{system: p, key: string([]byte{byte(p)})}, event.Value{Type: event.String, Text: c.Text}})
	}
	for i := range f.Properties {
		p := &f.Properties[i]
		v := known(p.Value)
		if v.Type == event.Null {
			return nil, &Error{Part: "filter", Text: fmt.Sprintf("the property '%s' of the correlation filter has no simple value", p.Name)}
		}
		a := askedProperty{system: SystemCount, name: p.Name, hash: hashName(p.Name)}
		a.key = string(appendFolded([]byte{byte(SystemCount)}, p.Name))
		pairs = append(pairs, pair{a, v})
	}
	if len(pairs) == 0 {
		return nil, &Error{Part: "filter", Text: "a correlation filter needs at least one condition"}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	for _, p := range pairs {
		t.asked = append(t.asked, p.askedProperty)
		t.values = append(t.values, p.value)
	}
	return t, nil
}

// correlations finds the correlation filters that match a message. Filters on the same properties
// form a shape, and one look into a map finds the filters of a shape whose values a message has. A
// shape is looked at only if the message has one of its properties, its anchor. So the cost depends
// on the properties of the message, not on the number of filters.
type correlations struct {
	shapes  map[string]*shape  // by the keys of their properties
	anchors map[string]*anchor // by the key of the property
	// number of the last match, so that one match looks at no shape twice
	matched uint64
	key     []byte
	found   []event.Value
}

// anchor is a property by which shapes are found.
type anchor struct {
	key    string
	shapes []*shape
}

type shape struct {
	key     string
	asked   []askedProperty
	anchor  *anchor
	at      int // in anchor.shapes
	buckets map[string]*bucket
	matched uint64
}

// bucket holds the rules of a shape whose values have the same key. Most often the values are
// equal.
type bucket struct {
	key   string
	shape *shape
	rules []*Rule
}

func (x *correlations) init() {
	x.shapes, x.anchors = map[string]*shape{}, map[string]*anchor{}
}

// add adds the filter of a rule.
func (x *correlations) add(r *Rule, t *test) {
	s := x.shape(t.asked)
	r.values = t.values
	x.key = x.key[:0]
	for _, v := range t.values {
		x.key = appendKey(x.key, v)
	}
	b := s.buckets[string(x.key)]
	if b == nil {
		b = &bucket{key: string(x.key), shape: s}
		s.buckets[b.key] = b
	}
	r.bucket, r.inBucket = b, len(b.rules)
	b.rules = append(b.rules, r)
}

// shape returns the shape of filters on the same properties. A new shape is anchored at the
// property with the fewest shapes.
func (x *correlations) shape(asks []askedProperty) *shape {
	x.key = x.key[:0]
	for i := range asks {
		x.key = binary.AppendUvarint(x.key, uint64(len(asks[i].key)))
		x.key = append(x.key, asks[i].key...)
	}
	s := x.shapes[string(x.key)]
	if s != nil {
		return s
	}
	s = &shape{key: string(x.key), asked: asks, buckets: map[string]*bucket{}}
	for i := range asks {
		a := x.anchors[asks[i].key]
		if a == nil {
			a = &anchor{key: asks[i].key}
		}
		if s.anchor == nil || len(a.shapes) < len(s.anchor.shapes) {
			s.anchor = a
		}
	}
	s.at = len(s.anchor.shapes)
	s.anchor.shapes = append(s.anchor.shapes, s)
	x.anchors[s.anchor.key] = s.anchor
	x.shapes[s.key] = s
	return s
}

// remove removes the filter of a rule.
func (x *correlations) remove(r *Rule) {
	b := r.bucket
	last := len(b.rules) - 1
	b.rules[r.inBucket] = b.rules[last]
	b.rules[r.inBucket].inBucket = r.inBucket
	b.rules[last] = nil
	if b.rules = b.rules[:last]; last > 0 {
		return
	}
	s := b.shape
	if delete(s.buckets, b.key); len(s.buckets) > 0 {
		return
	}
	delete(x.shapes, s.key)
	a := s.anchor
	last = len(a.shapes) - 1
	a.shapes[s.at] = a.shapes[last]
	a.shapes[s.at].at = s.at
	a.shapes[last] = nil
	if a.shapes = a.shapes[:last]; last == 0 {
		delete(x.anchors, a.key)
	}
}

// match appends the rules that match, in any order.
func (x *correlations) match(v *view, out []hit) []hit {
	if len(x.shapes) == 0 {
		return out
	}
	x.matched++
	for _, p := range fields[1:] {
		if v.m.System[p].Type != event.Null {
			x.key = append(x.key[:0], byte(p))
			out = x.anchored(v, out)
		}
	}
	for i := range v.m.User {
		x.key = appendFolded(append(x.key[:0], byte(SystemCount)), v.m.User[i].Name)
		out = x.anchored(v, out)
	}
	return out
}

// anchored looks at the shapes of the anchor whose key is x.key.
func (x *correlations) anchored(v *view, out []hit) []hit {
	a := x.anchors[string(x.key)]
	if a == nil {
		return out
	}
	for _, s := range a.shapes {
		if s.matched == x.matched {
			continue // the message has the anchor twice, in two spellings
		}
		s.matched = x.matched
		b := x.bucket(s, v)
		if b == nil {
			continue
		}
		for _, r := range b.rules {
			if slices.EqualFunc(r.values, x.found, equal) {
				out = append(out, hit{key: r.key, rule: r})
			}
		}
	}
	return out
}

// bucket finds the rules of a shape that a message may match, and leaves the message's values in
// x.found.
func (x *correlations) bucket(s *shape, v *view) *bucket {
	x.key, x.found = x.key[:0], x.found[:0]
	for i := range s.asked {
		a := &s.asked[i]
		var value event.Value
		if a.system != SystemCount {
			value = known(v.m.System[a.system])
		} else {
			value = v.user(a.name, a.hash)
		}
		if value.Type == event.Null {
			return nil
		}
		x.key = appendKey(x.key, value)
		x.found = append(x.found, value)
	}
	return s.buckets[string(x.key)]
}

// appendKey appends bytes that are the same for all values that equal each other. A number is
// represented by its nearest double, so values with the same key are compared once more.
func appendKey(dst []byte, v event.Value) []byte {
	switch {
	case isNumber(v.Type):
		f := double(v) + 0 // adding 0 turns the IEEE 754 value -0 into 0
		return binary.BigEndian.AppendUint64(append(dst, byte(event.Double)), math.Float64bits(f))
	case v.Type == event.String || v.Type == event.UUID:
		dst = binary.AppendUvarint(append(dst, byte(v.Type)), uint64(len(v.Text)))
		return append(dst, v.Text...)
	}
	return binary.BigEndian.AppendUint64(append(dst, byte(v.Type)), v.Bits)
}
