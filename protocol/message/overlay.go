package message

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// overlay holds the changes of a message since it was sent: application properties that settlements
// and rule actions have set or removed, and system properties that rule actions have changed
// (semantics.md 5.3, 15.5).
//
// It is read from stored bytes, the oldest change first. Each change is in the form of log/event,
// or in one of the two forms in logs of format 1 (docs/log-format.md, section 8); the first byte
// tells:
//
//	map                   application properties to add or replace
//	list of three         a map of application properties to set, a list of names of those to remove before, and a map of
//	                      system properties by name, in which null means removed; each of them may be null
type overlay struct {
	application []property
	places      map[string]int // of application, when there are many
	system      [filter.SystemCount]systemChange
	properties  bool // a changed system property is in the properties section
}

// property is a change of one application property.
type property struct {
	key     string
	entry   []byte // key and value as encoded in a change of format 1; nil: value counts
	value   event.Value
	removed bool
	by      int // number of the change
}

// append appends key and value.
func (p *property) append(dst []byte) []byte {
	if p.entry != nil {
		return append(dst, p.entry...)
	}
	return appendValue(amqp.AppendString(dst, p.key), p.value)
}

// systemChange is a new value of a system property.
type systemChange struct {
	set  bool
	text string // of text properties
	time int64  // of ScheduledEnqueueTimeUtc and TimeToLive: milliseconds
	null bool   // the property was removed
}

// changeable lists the system properties that an action can change. They are stored by name.
var changeable = [...]filter.SystemProperty{
	filter.ContentType, filter.CorrelationID, filter.Label, filter.MessageID, filter.PartitionKey, filter.ReplyTo,
	filter.ReplyToSessionID, filter.ScheduledEnqueueTimeUtc, filter.SessionID, filter.TimeToLive, filter.To,
}

var errChanges = errors.New("message: the stored property changes are not valid")

// readOverlay reads the changes of a delivery. It returns nil if there are none. Malformed bytes
// are damage.
func readOverlay(changes [][]byte) (*overlay, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	o := new(overlay)
	for i, b := range changes {
		var err error
		if e := (encodedValue{raw: b}); isMap(e) || isList(e) {
			err = o.changeEncoded(b)
		} else {
			err = o.change(b, i)
		}
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

// change reads change number i. Its values must be ones that a message can carry, because receivers
// get them.
func (o *overlay) change(b []byte, i int) error {
	c, err := event.ReadChanges(b)
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	for _, name := range c.Removed { // before setting others
		if !utf8.ValidString(name) {
			return errChanges
		}
		o.put(property{key: name, removed: true, by: i})
	}
	for _, p := range c.Set {
		at := o.place(p.Name)
		twice := at >= 0 && o.application[at].by == i && !o.application[at].removed
		if twice || !utf8.ValidString(p.Name) || !isCarriable(p.Value) {
			return errChanges
		}
		o.put(property{key: p.Name, value: p.Value, by: i})
	}
	return o.changeSystem(c.System)
}

// isCarriable reports whether a stored value can be the value of an application property.
func isCarriable(v event.Value) bool {
	switch v.Type {
	case event.String:
		return utf8.ValidString(v.Text)
	case event.UUID:
		return len(v.Text) == 16
	case event.Encoded:
		raw := []byte(v.Text)
		rest, err := amqp.SkipValue(raw, amqp.DefaultLimits)
		return err == nil && len(rest) == 0 && simpleRaw(raw)
	}
	return true
}

// changeEncoded reads a change of format 1.
func (o *overlay) changeEncoded(b []byte) error {
	if rest, err := amqp.SkipValue(b, amqp.DefaultLimits); err != nil || len(rest) > 0 {
		return errChanges
	}
	e := newEncodedValue(b)
	if isMap(e) {
		return o.setAll(e)
	}
	var parts [3]encodedValue
	items := e.items()
	for i := range parts {
		var ok bool
		if parts[i], ok = items.next(); !ok {
			return errChanges
		}
	}
	if len(items.raw) > 0 {
		return errChanges
	}
	if err := o.removeAll(parts[1]); err != nil { // before setting others
		return err
	}
	if err := o.setAll(parts[0]); err != nil {
		return err
	}
	return o.changeSystemEncoded(parts[2])
}

func isMap(e encodedValue) bool { return e.isCode(amqp.CodeMap8) || e.isCode(amqp.CodeMap32) }

func isList(e encodedValue) bool {
	return e.isCode(amqp.CodeList8) || e.isCode(amqp.CodeList32) || e.isCode(amqp.CodeList0)
}

// itemsOf returns the items of a compound of the expected kind, nothing for null.
func itemsOf(e encodedValue, expected func(encodedValue) bool) (items encodedValue, err error) {
	switch {
	case amqp.RawIsNull(e.raw):
		return encodedValue{}, nil
	case !expected(e):
		return encodedValue{}, errChanges
	}
	return e.items(), nil
}

func (o *overlay) setAll(e encodedValue) error {
	items, err := itemsOf(e, isMap)
	if err != nil {
		return err
	}
	for len(items.raw) > 0 {
		start := items.raw
		key, _ := items.next()
		name, ok := key.string()
		if _, more := items.next(); !ok || !more {
			return errChanges
		}
		n := len(start) - len(items.raw)
		o.put(property{key: name, entry: start[:n:n]})
	}
	return nil
}

func (o *overlay) removeAll(e encodedValue) error {
	items, err := itemsOf(e, isList)
	if err != nil {
		return err
	}
	for len(items.raw) > 0 {
		v, _ := items.next()
		name, ok := v.string()
		if !ok {
			return errChanges
		}
		o.put(property{key: name, removed: true})
	}
	return nil
}

// fewProperties is the number of properties up to which they are searched one by one; above it
// there is an index.
const fewProperties = 16

// put replaces the change of a property, or adds it.
func (o *overlay) put(p property) {
	if at := o.place(p.key); at >= 0 {
		o.application[at] = p
		return
	}
	if o.application = append(o.application, p); o.places != nil {
		o.places[p.key] = len(o.application) - 1
	}
}

// place returns the index of the change of an application property, -1 if there is none.
func (o *overlay) place(key string) int {
	if len(o.application) <= fewProperties {
		return slices.IndexFunc(o.application, func(p property) bool { return p.key == key })
	}
	if o.places == nil {
		o.places = make(map[string]int, 2*len(o.application))
		for i, p := range o.application {
			o.places[p.key] = i
		}
	}
	if at, ok := o.places[key]; ok {
		return at
	}
	return -1
}

func (o *overlay) changeSystem(properties event.Changes) error {
	seen := 0
	for _, p := range properties {
		at, ok := systemNamed(p.Name)
		if !ok || seen>>at&1 == 1 {
			return errChanges
		}
		seen |= 1 << at
		c := systemChange{set: true, null: p.Value.Type == event.Null}
		if !c.null && !c.take(at, p.Value) {
			return errChanges
		}
		o.putSystem(at, c)
	}
	return nil
}

func (o *overlay) changeSystemEncoded(e encodedValue) error {
	items, err := itemsOf(e, isMap)
	if err != nil {
		return err
	}
	for len(items.raw) > 0 {
		key, _ := items.next()
		v, ok1 := items.next()
		name, _ := key.string()
		at, ok2 := systemNamed(name)
		if !ok1 || !ok2 {
			return errChanges
		}
		c := systemChange{set: true, null: amqp.RawIsNull(v.raw)}
		if !c.null && !c.read(at, v) {
			return errChanges
		}
		o.putSystem(at, c)
	}
	return nil
}

// systemNamed returns the changeable system property with a name.
func systemNamed(name string) (p filter.SystemProperty, ok bool) {
	at := slices.IndexFunc(changeable[:], func(p filter.SystemProperty) bool { return p.String() == name })
	if at < 0 {
		return 0, false
	}
	return changeable[at], true
}

func (o *overlay) putSystem(p filter.SystemProperty, c systemChange) {
	o.system[p] = c
	switch p {
	case filter.PartitionKey, filter.ScheduledEnqueueTimeUtc, filter.TimeToLive:
	default:
		o.properties = true
	}
}

// take sets a value that is not null. It reports whether the value is of the property's type.
func (c *systemChange) take(p filter.SystemProperty, v event.Value) bool {
	switch p {
	case filter.ScheduledEnqueueTimeUtc:
		c.time = int64(event.FromTicks(int64(v.Bits)))
		return v.Type == event.Instant
	case filter.TimeToLive:
		c.time = spanOf(v).Milliseconds()
		return v.Type == event.Span
	}
	c.text = v.Text
	return v.Type == event.String && utf8.ValidString(v.Text)
}

// read is take for an encoded value.
func (c *systemChange) read(p filter.SystemProperty, v encodedValue) (ok bool) {
	switch p {
	case filter.ScheduledEnqueueTimeUtc:
		at, isTime := amqp.RawTimestamp(v.raw)
		c.time = int64(at)
		return isTime
	case filter.TimeToLive:
		return c.take(p, v.value())
	}
	c.text, ok = v.string()
	return ok
}

// spanOf returns the duration of a span: 0 for a negative one, and the longest duration for a
// longer one.
func spanOf(v event.Value) time.Duration {
	ms := min(max(int64(v.Bits), 0)/event.TicksPerMillisecond, math.MaxInt64/int64(time.Millisecond))
	return time.Duration(ms) * time.Millisecond
}

// changed reports whether a system property differs from the sent one.
func (o *overlay) changed(p filter.SystemProperty) (systemChange, bool) {
	if o == nil {
		return systemChange{}, false
	}
	return o.system[p], o.system[p].set
}

// appendApplication appends the application properties: the sent ones, in their order and with
// their changes, and then the added ones.
func (o *overlay) appendApplication(dst, sent []byte) []byte {
	if o == nil || len(o.application) == 0 {
		return append(dst, sent...)
	}
	start := len(dst)
	dst = amqp.AppendDescriptor(dst, amqp.SectionApplicationProperties)
	dst, mark := amqp.BeginMap(dst)
	pairs := 0
	written := make([]bool, len(o.application))
	for entry, key := range mapEntries(sent) {
		at := o.place(string(key))
		switch {
		case at < 0:
			dst = append(dst, entry...)
		case o.application[at].removed || written[at]:
			continue
		default:
			dst = o.application[at].append(dst)
			written[at] = true
		}
		pairs++
	}
	for i := range o.application {
		if p := &o.application[i]; !p.removed && !written[i] {
			dst = p.append(dst)
			pairs++
		}
	}
	if pairs == 0 {
		return dst[:start]
	}
	return amqp.EndMap(dst, mark, pairs)
}

// appendAnnotations appends the annotations that an action has changed, and returns their number.
func (o *overlay) appendAnnotations(dst []byte) ([]byte, int) {
	n := 0
	if c, ok := o.changed(filter.PartitionKey); ok && !c.null {
		dst = amqp.AppendString(amqp.AppendSymbol(dst, keyPartitionKey), c.text)
		n++
	}
	if c, ok := o.changed(filter.ScheduledEnqueueTimeUtc); ok && !c.null {
		dst = amqp.AppendTimestamp(amqp.AppendSymbol(dst, keyScheduled), amqp.Timestamp(c.time))
		n++
	}
	return dst, n
}

// replaces reports whether a sent annotation is not passed on.
func (o *overlay) replaces(key []byte) bool {
	if isBrokers(key) {
		return true
	}
	p := filter.PartitionKey
	switch string(key) {
	case keyScheduled:
		p = filter.ScheduledEnqueueTimeUtc
	case keyPartitionKey:
	default:
		return false
	}
	_, ok := o.changed(p)
	return ok
}

// field appends the changed field of the properties section, encoded. ok is false if it is as it
// was sent.
func (o *overlay) field(dst []byte, i int) (_ []byte, ok bool) {
	place := systemFields[i]
	if place == filter.SystemCount {
		return dst, false
	}
	c, ok := o.changed(place)
	switch {
	case !ok:
		return dst, false
	case c.null || i == amqp.FieldContentType && !isASCII(c.text): // content types are symbols
		return amqp.AppendNull(dst), true
	case i == amqp.FieldContentType:
		return amqp.AppendSymbol(dst, amqp.Symbol(c.text)), true
	}
	return amqp.AppendString(dst, c.text), true
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
