package print

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Events prints events of one log. It belongs to one goroutine.
type Events struct {
	// ReadBlob reads bodies, to be printed; nil: none are printed.
	ReadBlob func(b event.Blob, dst []byte) ([]byte, error)
	body     []byte
	known    map[reflect.Type][]member
}

// member is a field of a struct: what there is to know of it before a value of it is seen.
type member struct {
	name   string
	number bool // it is printed as the number that it is
}

// members returns the fields of a struct. Package reflect makes what it says of a field anew each time it is asked.
func (d *Events) members(t reflect.Type) []member {
	if list, ok := d.known[t]; ok {
		return list
	}
	list := make([]member, t.NumField())
	for i := range list {
		f := t.Field(i)
		list[i] = member{f.Name, isNumber(f.Type)}
	}
	if d.known == nil {
		d.known = make(map[reflect.Type][]member)
	}
	d.known[t] = list
	return list
}

// isNumber reports whether values of a type have no words of their own.
func isNumber(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return !t.Implements(reflect.TypeFor[fmt.Stringer]())
	}
	return false
}

// Fields appends the fields of an event that are not zero, except those that every event has. An error is that of ReadBlob, or of a field of an unknown type.
func (d *Events) Fields(list Object, ev event.Event) (Object, error) {
	return d.fields(list, reflect.ValueOf(ev).Elem())
}

// fields appends the fields of an event, or of a struct in one, that are not zero.
func (d *Events) fields(list Object, v reflect.Value) (Object, error) {
	for i, member := range d.members(v.Type()) {
		name, value := member.name, v.Field(i)
		if name == "Envelope" || value.IsZero() {
			continue
		}
		if member.number {
			list = append(list, Field{name, value.Uint()})
			continue
		}
		var err error
		switch x := value.Interface().(type) {
		case event.Blob:
			list, err = d.blob(list, name, x)
		case event.Properties, event.Rule:
			switch name {
			case "Before":
				list, err = d.before(list, value, v)
			case "Properties":
				list, err = d.fields(list, value)
			default:
				list, err = d.append(list, name, value)
			}
		case []byte:
			if len(x) > 0 || meansSomething(name, v) {
				list = append(list, Field{name, plain(name, x)})
			}
		default:
			list, err = d.append(list, name, value)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (d *Events) append(list Object, name string, v reflect.Value) (Object, error) {
	shown, err := d.value(v)
	return append(list, Field{name, shown}), err
}

func (d *Events) blob(list Object, name string, b event.Blob) (Object, error) {
	list = append(list, Field{name + "Size", uint64(b.Size)}, Field{name + "Position", uint64(b.Position)})
	if d.ReadBlob == nil {
		return list, nil
	}
	var err error
	d.body, err = d.ReadBlob(b, d.body[:0])
	if errors.Is(err, event.ErrErased) {
		return append(list, Field{name + "Erased", true}), nil
	}
	if err != nil {
		return nil, err
	}
	if name == "Changes" {
		if c, err := event.ReadChanges(d.body); err == nil {
			return d.append(list, name, reflect.ValueOf(c))
		}
	}
	return append(list, Field{name, Text(d.body)}), nil // of changes: those of format 1, or damaged ones
}

// before appends what something was before an event, for the audit: of an entity that is gone all of it, of what was changed the
// parts that are different now. An event of version 1 does not know what was before.
func (d *Events) before(list Object, old, ev reflect.Value) (Object, error) {
	var now reflect.Value
	for _, name := range []string{"Properties", "Rule"} {
		if f := ev.FieldByName(name); f.IsValid() {
			now = f
		}
	}
	var was Object
	var err error
	if now.IsValid() {
		was, err = d.different(nil, old, now)
	} else {
		was, err = d.fields(nil, old)
	}
	if err != nil || len(was) == 0 {
		return list, err
	}
	return append(list, Field{"Before", was}), nil
}

// different appends the fields of a struct that are not as they are now, zero or not.
func (d *Events) different(list Object, old, now reflect.Value) (Object, error) {
	for i := range old.NumField() {
		a, b := old.Field(i), now.Field(i)
		if reflect.DeepEqual(a.Interface(), b.Interface()) || a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
			continue
		}
		var shown any
		var err error
		if a.Kind() == reflect.Struct {
			shown, err = d.different(nil, a, b)
		} else {
			shown, err = d.value(a)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Field{old.Type().Field(i).Name, shown})
	}
	return list, nil
}

// value is a field as it is printed. The types of event structs are few and known; another one is an error, so that nothing is printed that nobody has
// thought of.
func (d *Events) value(v reflect.Value) (any, error) {
	switch x := v.Interface().(type) {
	case time.Duration:
		if x == event.Forever {
			return "forever", nil
		}
		return x.String(), nil
	case fmt.Stringer: // among them a secret, which prints as ***
		return x.String(), nil
	case []event.Returned:
		return returned(x), nil
	case []event.SequenceNumber, []event.TransferNumber:
		return x, nil
	case event.Property:
		return Object{{"Name", Text([]byte(x.Name))}, {"Type", typeName(x.Value.Type)}, {"Value", simple(x.Value)}}, nil
	case event.Condition:
		return Object{{"Field", x.Field.String()}, {"Text", Text([]byte(x.Text))}}, nil
	}
	if isNumber(v.Type()) {
		return v.Uint(), nil
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.String:
		return Text([]byte(v.String())), nil
	case reflect.Struct:
		return d.fields(Object{}, v)
	case reflect.Pointer: // what few events of a kind have
		return d.value(v.Elem())
	case reflect.Slice:
		all := make(array, v.Len())
		for i := range all {
			var err error
			if all[i], err = d.value(v.Index(i)); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("no way to print a %v", v.Type())
}

// plain is a field of bytes.
func plain(name string, x []byte) any {
	if name != "Hosts" {
		return Text(x)
	}
	hosts := make(array, len(x))
	for i, h := range x {
		hosts[i] = uint64(h)
	}
	return hosts
}

var typeNames = [...]string{"null", "bool", "int", "long", "double", "decimal", "string", "uuid", "time", "span"}

func typeName(t event.ValueType) string {
	switch {
	case int(t) < len(typeNames):
		return typeNames[t]
	case t == event.Encoded:
		return "encoded"
	}
	return "unknown"
}

// simple is a value of a rule or of property changes in words: numbers of 64 bits would lose digits in JSON.
func simple(v event.Value) string {
	switch v.Type {
	case event.Null:
		return "null"
	case event.Bool:
		return strconv.FormatBool(v.Bits != 0)
	case event.Int, event.Long:
		return strconv.FormatInt(int64(v.Bits), 10)
	case event.Double:
		return strconv.FormatFloat(math.Float64frombits(v.Bits), 'g', -1, 64)
	case event.UUID:
		if len(v.Text) == 16 {
			return string(event.AppendUUID(nil, v.Text))
		}
	case event.Instant:
		return string(event.AppendInstant(nil, v))
	case event.Span:
		return span(int64(v.Bits))
	}
	return Text([]byte(v.Text))
}

// span is ticks as days.hours:minutes:seconds; a duration has not room for all of them.
func span(ticks int64) string {
	sign, n := "", uint64(ticks)
	if ticks < 0 {
		sign, n = "-", -n
	}
	s := n / event.TicksPerSecond
	out := fmt.Sprintf("%s%d.%02d:%02d:%02d", sign, s/86400, s/3600%24, s/60%60, s%60)
	if rest := n % event.TicksPerSecond; rest > 0 {
		out += fmt.Sprintf(".%07d", rest)
	}
	return out
}

// returned is a list of messages given back; as text it has number:delivery count of each.
type returned []event.Returned

func (r returned) String() string {
	words := make([]string, len(r))
	for i, m := range r {
		words[i] = fmt.Sprintf("%d:%d", m.Sequence, m.DeliveryCount)
	}
	return strings.Join(words, ",")
}

// meansSomething reports whether bytes that are empty are a value all the same: "" is a session, unless the event says that
// there is none.
func meansSomething(name string, v reflect.Value) bool {
	if name != "SessionID" {
		return false
	}
	for _, flag := range []string{"HasSession", "InSession"} {
		if has := v.FieldByName(flag); has.IsValid() {
			return has.Bool()
		}
	}
	return true
}

// Text is p as a string that JSON keeps: bytes that are not UTF-8 are written out as \xnn.
func Text(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	var b strings.Builder
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, p[0])
		} else {
			b.WriteRune(r)
		}
		p = p[n:]
	}
	return b.String()
}
