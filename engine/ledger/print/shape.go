package print

import (
	"fmt"
	"reflect"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// shape holds what is known of a struct before any value of it is printed: package reflect computes
// the description of a field again at each call.
type shape struct{ members []member }

// member is a field of a struct.
type member struct {
	key
	index int
	form  form
	of    *shape    // of a structure, and of an inline part of the struct
	blob  *blobKeys // of a blob
	// flag is the index of the field that reports whether an empty session id is a value; always:
	// it is one.
	flag int
}

// form tells how the values of a field are printed.
type form uint8

const (
	general   form = iota // by type, value by value: for rare fields
	number                // its number
	truth                 // a bool
	instant               // an event.Time
	duration              // a time.Duration
	uuid                  // 16 bytes
	texts                 // a string
	octets                // bytes, which are a text
	places                // bytes, which are numbers
	blob                  // an event.Blob
	structure             // an object of its own
	pointer               // to a structure, or nil
	inline                // a struct whose fields are printed with those around it
	before                // the values before the event
)

// Meanings of an empty session id, in place of the index of a field.
const (
	never  = -1 // it is no session
	always = -2
)

type blobKeys struct{ size, position, erased key }

// shape returns the shape of a struct.
func (d *Events) shape(t reflect.Type) *shape {
	if s := d.known[t]; s != nil {
		return s
	}
	if d.known == nil {
		d.known = make(map[reflect.Type]*shape)
	}
	s := new(shape)
	d.known[t] = s
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "Envelope" {
			continue
		}
		m := member{key: newKey(f.Name), index: i, form: formOf(f.Type, f.Name), flag: never}
		switch m.form {
		case blob:
			m.blob = &blobKeys{newKey(f.Name + "Size"), newKey(f.Name + "Position"), newKey(f.Name + "Erased")}
		case structure, inline:
			m.of = d.shape(f.Type)
		case pointer:
			m.of = d.shape(f.Type.Elem())
		case octets:
			m.flag = sessionFlag(t, f.Name)
		}
		s.members = append(s.members, m)
	}
	return s
}

// sessionFlag returns the index of the field of a struct that reports whether empty bytes are a
// value: "" is a session, unless the event says that there is none.
func sessionFlag(t reflect.Type, name string) int {
	if name != "SessionID" {
		return never
	}
	for _, flag := range []string{"HasSession", "InSession"} {
		if f, ok := t.FieldByName(flag); ok {
			return f.Index[0]
		}
	}
	return always
}

// formOf returns how the values of a field are printed.
func formOf(t reflect.Type, name string) form {
	switch t {
	case reflect.TypeFor[event.Time]():
		return instant
	case reflect.TypeFor[time.Duration]():
		return duration
	case reflect.TypeFor[event.LockToken](), reflect.TypeFor[event.TransactionID]():
		return uuid
	case reflect.TypeFor[event.Blob]():
		return blob
	case reflect.TypeFor[[]byte]():
		if name == "Hosts" {
			return places
		}
		return octets
	case reflect.TypeFor[event.Properties](), reflect.TypeFor[event.Rule]():
		switch name {
		case "Before":
			return before
		case "Properties":
			return inline
		}
	case reflect.TypeFor[event.Property](), reflect.TypeFor[event.Condition]():
		return general
	}
	if t.Implements(reflect.TypeFor[fmt.Stringer]()) {
		return general
	}
	switch t.Kind() {
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return number
	case reflect.Bool:
		return truth
	case reflect.String:
		return texts
	case reflect.Struct:
		return structure
	case reflect.Pointer:
		if formOf(t.Elem(), "") == structure {
			return pointer
		}
	}
	return general
}

// zero reports whether a struct has nothing to print.
func (s *shape) zero(v reflect.Value) bool {
	for i := range s.members {
		if !v.Field(s.members[i].index).IsZero() {
			return false
		}
	}
	return true
}

// put passes the fields of an event, or of a struct in one, that are not zero to a sink.
func (d *Events) put(to sink, s *shape, v reflect.Value) error {
	if !v.CanAddr() {
		whole := reflect.New(v.Type()).Elem()
		whole.Set(v)
		v = whole
	}
	for i := range s.members {
		m := &s.members[i]
		f := v.Field(m.index)
		switch m.form {
		case number:
			if n := f.Uint(); n != 0 {
				to.number(&m.key, n)
			}
		case truth:
			if f.Bool() {
				to.flag(&m.key, true)
			}
		case instant:
			if t := f.Int(); t != 0 {
				to.text(&m.key, d.time(event.Time(t)))
			}
		case duration:
			if t := f.Int(); t != 0 {
				to.string(&m.key, lasting(time.Duration(t)))
			}
		case uuid:
			if !f.IsZero() {
				d.words = event.AppendUUID(d.words[:0], f.Bytes())
				to.text(&m.key, d.words)
			}
		case texts:
			if t := f.String(); t != "" {
				to.string(&m.key, t)
			}
		case octets:
			if p := f.Bytes(); len(p) > 0 || p != nil && (m.flag == always || m.flag >= 0 && v.Field(m.flag).Bool()) {
				to.text(&m.key, p)
			}
		default:
			if err := d.putMore(to, m, f, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// putMore is put for a field that has several values, or that few events have.
func (d *Events) putMore(to sink, m *member, f, v reflect.Value) error {
	switch m.form {
	case blob:
		b := f.Addr().Interface().(*event.Blob)
		if b.Size == 0 && f.IsZero() {
			return nil
		}
		return d.blob(to, m, b)
	case structure:
		if m.of.zero(f) {
			return nil
		}
		to.open(&m.key)
		err := d.put(to, m.of, f)
		to.close(&m.key)
		return err
	case pointer:
		if f.IsNil() {
			return nil
		}
		to.open(&m.key)
		err := d.put(to, m.of, f.Elem())
		to.close(&m.key)
		return err
	case inline:
		return d.put(to, m.of, f)
	case places:
		if p := f.Bytes(); len(p) > 0 {
			return to.value(&m.key, numbers(p))
		}
		return nil
	}
	if f.IsZero() {
		return nil
	}
	if m.form == before {
		return d.before(to, m, f, v)
	}
	return d.general(to, m, f)
}

// lasting returns a duration in words.
func lasting(d time.Duration) string {
	if d == event.Forever {
		return "forever"
	}
	return d.String()
}
