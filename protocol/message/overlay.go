package message

import (
	"math"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// overlay is what has become of a message since it was sent: application properties that settlements and rule actions have
// set or removed, and system properties that rule actions have changed (semantics.md 5.3, 15.5).
//
// It is read from stored bytes, the oldest change first, each in one of two forms:
//
//	map                   application properties to add or replace
//	list of three         a map of application properties to set, a list of names of those to remove before, and a map of
//	                      system properties by name, in which null means removed; each of them may be null
type overlay struct {
	application []property
	places      map[string]int // of application, when there are many
	system      [filter.SystemCount]systemChange
	properties  bool // one of system stands in the properties section
}

// property is a change of one application property.
type property struct {
	key     string
	entry   []byte // key and value as they are encoded
	removed bool
}

// systemChange is a new value of a system property.
type systemChange struct {
	set  bool
	text string // of those that are texts
	time int64  // of ScheduledEnqueueTimeUtc and TimeToLive: milliseconds
	null bool   // there is none any more
}

// changeable are the system properties that an action can change. They are stored by name.
var changeable = [...]filter.SystemProperty{
	filter.ContentType, filter.CorrelationID, filter.Label, filter.MessageID, filter.PartitionKey, filter.ReplyTo,
	filter.ReplyToSessionID, filter.ScheduledEnqueueTimeUtc, filter.SessionID, filter.TimeToLive, filter.To,
}

// readOverlay reads the changes of a delivery. It is nil when there are none. What is not well-formed is damage.
func readOverlay(changes [][]byte) (*overlay, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	o := new(overlay)
	for _, b := range changes {
		if rest, err := amqp.SkipValue(b, amqp.DefaultLimits); err != nil || len(rest) > 0 {
			return nil, errStored
		}
		if err := o.change(encodedOf(b)); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *overlay) change(e encoded) error {
	if isMap(e) {
		return o.setAll(e)
	}
	if !isList(e) {
		return errStored
	}
	var parts [3]encoded
	items := e.items()
	for i := range parts {
		var ok bool
		if parts[i], ok = items.next(); !ok {
			return errStored
		}
	}
	if len(items.raw) > 0 {
		return errStored
	}
	if err := o.removeAll(parts[1]); err != nil { // before those that are set
		return err
	}
	if err := o.setAll(parts[0]); err != nil {
		return err
	}
	return o.changeSystem(parts[2])
}

func isMap(e encoded) bool { return e.isCode(amqp.CodeMap8) || e.isCode(amqp.CodeMap32) }

func isList(e encoded) bool {
	return e.isCode(amqp.CodeList8) || e.isCode(amqp.CodeList32) || e.isCode(amqp.CodeList0)
}

// itemsOf is what stands in a compound of the kind that is expected; nothing where there is null.
func itemsOf(e encoded, expected func(encoded) bool) (items encoded, err error) {
	switch {
	case amqp.RawIsNull(e.raw):
		return encoded{}, nil
	case !expected(e):
		return encoded{}, errStored
	}
	return e.items(), nil
}

func (o *overlay) setAll(e encoded) error {
	items, err := itemsOf(e, isMap)
	if err != nil {
		return err
	}
	for len(items.raw) > 0 {
		start := items.raw
		key, _ := items.next()
		name, ok := key.string()
		if _, more := items.next(); !ok || !more {
			return errStored
		}
		n := len(start) - len(items.raw)
		o.put(property{key: name, entry: start[:n:n]})
	}
	return nil
}

func (o *overlay) removeAll(e encoded) error {
	items, err := itemsOf(e, isList)
	if err != nil {
		return err
	}
	for len(items.raw) > 0 {
		v, _ := items.next()
		name, ok := v.string()
		if !ok {
			return errStored
		}
		o.put(property{key: name, removed: true})
	}
	return nil
}

// fewProperties is up to how many are looked through one by one.
const fewProperties = 16

// put replaces what was said of the property, or adds it.
func (o *overlay) put(p property) {
	if at := o.place(p.key); at >= 0 {
		o.application[at] = p
		return
	}
	if o.application = append(o.application, p); o.places != nil {
		o.places[p.key] = len(o.application) - 1
	}
}

// place is where the change of an application property stands, -1 when there is none.
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

func (o *overlay) changeSystem(e encoded) error {
	items, err := itemsOf(e, isMap)
	if err != nil {
		return err
	}
	for len(items.raw) > 0 {
		key, _ := items.next()
		v, ok := items.next()
		name, _ := key.string()
		at := slices.IndexFunc(changeable[:], func(p filter.SystemProperty) bool { return p.String() == name })
		if !ok || at < 0 {
			return errStored
		}
		p := changeable[at]
		c := systemChange{set: true, null: amqp.RawIsNull(v.raw)}
		if !c.null && !c.read(p, v) {
			return errStored
		}
		o.system[p] = c
		switch p {
		case filter.PartitionKey, filter.ScheduledEnqueueTimeUtc, filter.TimeToLive:
		default:
			o.properties = true
		}
	}
	return nil
}

// read takes a value that is not null. It reports whether it is of the property's type.
func (c *systemChange) read(p filter.SystemProperty, v encoded) (ok bool) {
	switch p {
	case filter.ScheduledEnqueueTimeUtc:
		at, isTime := amqp.RawTimestamp(v.raw)
		c.time = int64(at)
		return isTime
	case filter.TimeToLive:
		d, isSpan := spanOf(v)
		c.time = max(d, 0).Milliseconds()
		return isSpan
	}
	c.text, ok = v.string()
	return ok
}

// spanOf is a span of time as .NET writes it.
func spanOf(v encoded) (time.Duration, bool) {
	d := v.value()
	ms := min(int64(d.Bits)/event.TicksPerMillisecond, math.MaxInt64/int64(time.Millisecond))
	return time.Duration(ms) * time.Millisecond, d.Type == event.Span
}

// changed tells whether a system property is another one than was sent.
func (o *overlay) changed(p filter.SystemProperty) (systemChange, bool) {
	if o == nil {
		return systemChange{}, false
	}
	return o.system[p], o.system[p].set
}

// appendApplication appends the application properties: those that were sent, in their order, with what became of them,
// and behind them the others.
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
		if at := o.place(string(key)); at >= 0 {
			if entry = o.application[at].entry; o.application[at].removed || written[at] {
				continue
			}
			written[at] = true
		}
		dst = append(dst, entry...)
		pairs++
	}
	for i, p := range o.application {
		if !p.removed && !written[i] {
			dst = append(dst, p.entry...)
			pairs++
		}
	}
	if pairs == 0 {
		return dst[:start]
	}
	return amqp.EndMap(dst, mark, pairs)
}

// appendAnnotations appends the annotations that an action has changed, and says how many they are.
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

// replaces names the annotations as sent that are not passed on.
func (o *overlay) replaces(key []byte) bool {
	if brokers(key) {
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

// field is what an action made of a field of the properties section, encoded. ok is false when it is as it was sent.
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
