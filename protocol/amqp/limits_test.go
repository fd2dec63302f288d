package amqp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func nested(n int, code byte) []byte {
	b := []byte{CodeNull}
	for range n {
		switch code {
		case CodeList8:
			b = append([]byte{CodeList32, 0, 0, 0, 0, 0, 0, 0, 1}, b...)
			binary.BigEndian.PutUint32(b[1:], uint32(len(b)-5))
		case CodeMap8:
			b = append([]byte{CodeMap32, 0, 0, 0, 0, 0, 0, 0, 2, CodeTrue}, b...)
			binary.BigEndian.PutUint32(b[1:], uint32(len(b)-5))
		case CodeArray32:
			if b[0] != CodeArray32 {
				b = []byte{CodeArray32, 0, 0, 0, 5, 0, 0, 0, 0, CodeNull}
				continue
			}
			b = append([]byte{CodeArray32, 0, 0, 0, 0, 0, 0, 0, 1}, b...)
			binary.BigEndian.PutUint32(b[1:], uint32(len(b)-5))
		case CodeDescribed:
			b = append([]byte{CodeDescribed, CodeSmallUlong, 1}, b...)
		}
	}
	return b
}

func listOf(n int) []byte { return appendList(nil, make(List, n)) }

func mapOf(pairs int) []byte {
	b, mark := BeginMap(nil)
	for i := range pairs {
		b = AppendNull(AppendInt(b, int32(i)))
	}
	return EndMap(b, mark, pairs)
}

func arrayOf(n int, elem byte) []byte {
	b := []byte{CodeArray32, 0, 0, 0, 0, 0, 0, 0, 0, elem}
	b = append(b, make([]byte, n*max(elementWidth(elem), 0))...)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-5))
	binary.BigEndian.PutUint32(b[5:], uint32(n))
	return b
}

// Reliability section 8: each limit one below, at and one above, by every decoder.
func TestLimits(t *testing.T) {
	type limit struct {
		name   string
		of     func(Limits) int
		bytes  func(n int) []byte
		reason string
		even   bool // only even numbers make sense: step is 2
	}
	for _, l := range []limit{
		{"S16 depth of lists", func(l Limits) int { return l.Depth },
			func(n int) []byte { return nested(n, CodeList8) }, "nested too deep", false},
		{"S16 depth of maps", func(l Limits) int { return l.Depth },
			func(n int) []byte { return nested(n, CodeMap8) }, "nested too deep", false},
		{"S16 depth of arrays", func(l Limits) int { return l.Depth },
			func(n int) []byte { return nested(n, CodeArray32) }, "nested too deep", false},
		{"S16 depth of described", func(l Limits) int { return l.Described },
			func(n int) []byte { return nested(n, CodeDescribed) }, "too many described values inside each other", false},
		{"S15 elements of a list", func(l Limits) int { return l.Elements }, listOf, "too many elements", false},
		{"S15 elements of a map", func(l Limits) int { return l.Elements },
			func(n int) []byte { return mapOf(n / 2) }, "too many elements", true},
		{"S15 elements of an array", func(l Limits) int { return l.Elements },
			func(n int) []byte { return arrayOf(n, CodeUbyte) }, "too many elements", false},
		{"S19 zero-width elements", func(l Limits) int { return l.ZeroWidth },
			func(n int) []byte { return arrayOf(n, CodeNull) }, "too many elements", false},
		{"S19 zero-width elements in total", func(l Limits) int { return l.ZeroWidth },
			func(n int) []byte {
				b, mark := BeginList(nil)
				b = append(b, arrayOf(n/2, CodeTrue)...)
				b = append(b, arrayOf(n-n/2, CodeUint0)...)
				return EndList(b, mark, 2)
			}, "too many elements without bytes", false},
	} {
		for name, lim := range map[string]Limits{"default": DefaultLimits, "handshake": HandshakeLimits} {
			t.Run(l.name+"/"+name, func(t *testing.T) {
				step := 1
				if l.even {
					step = 2
				}
				n := l.of(lim)
				for _, c := range []struct {
					n  int
					ok bool
				}{{n - step, true}, {n, true}, {n + step, false}} {
					checkAllDecoders(t, l.bytes(c.n), lim, c.ok, l.reason)
				}
			})
		}
	}
}

func checkAllDecoders(t *testing.T, b []byte, lim Limits, ok bool, reason string) {
	t.Helper()
	body := append(AppendDescriptor(nil, SectionValue), b...)
	_, _, decodeErr := DecodeValue(b, lim)
	_, skipErr := SkipValue(b, lim)
	// A section's descriptor is not a described value inside the section.
	_, scanErr := ScanMessage(body, lim)
	for name, err := range map[string]error{"decode": decodeErr, "skip": skipErr, "scan": scanErr} {
		var d *DecodeError
		switch {
		case ok && err != nil:
			t.Errorf("%s: %v", name, err)
		case !ok && (!errors.As(err, &d) || !strings.HasPrefix(d.Reason, reason)):
			t.Errorf("%s: error %v, want %q", name, err, reason)
		}
	}
}

// A performative is a described list itself, so its fields have one level less.
func TestLimitsInPerformatives(t *testing.T) {
	for n, ok := range map[int]bool{DefaultLimits.Depth - 2: true, DefaultLimits.Depth - 1: false} {
		properties := append(AppendSymbol(nil, "k"), nested(n, CodeList8)...)
		b, list := BeginList(AppendDescriptor(nil, descOpen))
		b = AppendString(b, "c")
		for range 8 {
			b = AppendNull(b)
		}
		b, mark := BeginMap(b)
		b = append(b, properties...)
		b = EndList(EndMap(b, mark, 1), list, 10)
		if _, _, err := DecodePerformative(b, DefaultLimits); (err == nil) != ok {
			t.Errorf("%d lists in a map in open: %v", n, err)
		}
	}
	// Transactional states inside each other end at the first, long before the depth does.
	b := appendComposite(nil, &Disposition{State: TransactionalState{TxnID: []byte{1},
		Outcome: TransactionalState{TxnID: []byte{1}, Outcome: Accepted{}}}})
	if _, _, err := DecodePerformative(b, DefaultLimits); err == nil {
		t.Error("transactional state inside a transactional state: no error")
	}
	deep := []byte{CodeNull}
	for range 100_000 {
		deep = append([]byte{0, 0x53, 0x34, 0xd0, 0, 0, 0, 0, 0, 0, 0, 2, 0xa0, 0}, deep...)
		if len(deep) > 20_000 {
			break
		}
	}
	if _, _, err := decodeComposite(deep, DefaultLimits); err == nil {
		t.Error("states without end: no error")
	}
}

// F20: input that kills a recursive consumer is refused here.
func TestNestedDescriptorsRefused(t *testing.T) {
	bomb := append(bytes.Repeat([]byte{CodeDescribed, CodeSmallUlong, 1}, 350_000), CodeNull)
	for _, b := range [][]byte{bomb, bytes.Repeat([]byte{CodeDescribed}, 1<<20)} {
		if _, err := SkipValue(b, DefaultLimits); err == nil {
			t.Error("no error")
		}
		if _, err := ScanMessage(append(AppendDescriptor(nil, SectionValue), b...), DefaultLimits); err == nil {
			t.Error("no error in a body")
		}
		RawSize(b) // ends
	}
}

// The zero Limits is DefaultLimits.
func TestZeroLimits(t *testing.T) {
	if _, err := SkipValue(nested(DefaultLimits.Depth, CodeList8), Limits{}); err != nil {
		t.Error(err)
	}
	if _, err := SkipValue(nested(DefaultLimits.Depth+1, CodeList8), Limits{}); err == nil {
		t.Error("no error")
	}
}

// S15: memory is bounded by the input and not by the announced counts.
func TestDecodeMemory(t *testing.T) {
	huge := binary.BigEndian.AppendUint32(nil, 1<<31)
	wide := func(code byte) []byte { return append(append([]byte{code}, huge...), huge...) }
	nulls := bytes.Repeat([]byte{CodeArray32, 0, 0, 0, 5, 0, 0, 0x10, 0, CodeNull}, 6000)
	list, mark := BeginList(nil)
	inputs := map[string][]byte{
		"list announcing 2^31":  wide(CodeList32),
		"map announcing 2^31":   wide(CodeMap32),
		"array announcing 2^31": wide(CodeArray32),
		"binary announcing":     append([]byte{CodeBin32}, huge...),
		"arrays of nulls":       EndList(append(list, nulls...), mark, 6000),
		"nulls":                 listOf(65536),
		"one-byte strings":      EndList(append(list[:9:9], bytes.Repeat([]byte{CodeStr8, 1, 'a'}, 20000)...), 0, 20000),
		"described nulls":       EndList(append(list[:9:9], bytes.Repeat([]byte{0, CodeUlong0, CodeNull}, 20000)...), 0, 20000),
	}
	for name, b := range inputs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v, _, _ := DecodeValue(b, DefaultLimits)
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(v)
		if used, bound := after.TotalAlloc-before.TotalAlloc, uint64(64<<10+24*len(b)); used > bound {
			t.Errorf("%s: %d bytes of input took %d bytes of memory, more than %d", name, len(b), used, bound)
		}
	}
}

// S17, and all other faults of a value.
func TestMalformed(t *testing.T) {
	for _, c := range []struct{ name, bytes, reason string }{
		{"empty", "", "value missing"},
		{"unknown constructor", "46", "unknown constructor"},
		{"unknown constructor 0x99", "99", "unknown constructor"},
		{"boolean of 2", "5602", "boolean is neither 0 nor 1"},
		{"char", "7300110000", "char is not a code point"},
		{"string is not UTF-8", "a101ff", "string is not UTF-8"},
		{"surrogate in UTF-8", "a103eda080", "string is not UTF-8"},
		{"symbol is not ASCII", "a302c3b6", "symbol is not ASCII"},
		{"size beyond the end", "a10361", "size beyond the end"},
		{"size of 2^32-1", "b1ffffffff61", "size beyond the end"},
		{"size cut", "b10000", "value cut short"},
		{"list without count", "c000", "value cut short"},
		{"list32 of size 3", "d000000003000000", "value cut short"},
		{"list with count beyond its size", "c0030540 40", "more elements than bytes"},
		{"list with bytes behind its elements", "c0030140 40", "size and content of a compound differ"},
		{"element beyond its list", "c0030171 00000001", "value cut short"},
		{"map with an odd count", "c10201 40", "map with an odd count"},
		{"map with count beyond its size", "c1020240", "more elements than bytes"},
		{"value beyond its map", "c10704 a10161 41 a10161 42", "size beyond the end"},
		{"key twice", "c10904 a10161 41 a10161 42", "map with a key twice"},
		{"key twice, two encodings", "c10c04 a10161 41 b10000000161 42", "map with a key twice"},
		{"number key twice, two encodings", "c10a04 5201 41 7000000001 42", "map with a key twice"},
		{"boolean key twice, two encodings", "c10604 41 41 5601 42", "map with a key twice"},
		{"null key twice", "c10504 40 41 40 42", "map with a key twice"},
		{"key is a list", "c10302 45 41", "map key is not a simple value"},
		{"key is an array", "c10602 e0020040 41", "map key is not a simple value"},
		{"key is described", "c10602 005301 40 41", "map key is not a simple value"},
		{"array without constructor", "e00100", "value missing"},
		{"array of unknown constructor", "e0020099", "unknown constructor"},
		{"array with count beyond its size", "e0030350 01", "more elements than bytes"},
		{"array of longs with count beyond its size", "e006028100000000", "more elements than bytes"},
		{"array with bytes behind its elements", "e0040150 0101", "size and content of a compound differ"},
		{"array of booleans of 2", "e0030156 02", "boolean is neither 0 nor 1"},
		{"array of strings not UTF-8", "e00401a1 01ff", "string is not UTF-8"},
		{"array of described without descriptor", "e0020000", "value missing"},
		{"descriptor missing", "00", "value missing"},
		{"descriptor is a string", "00a1016140", "descriptor is neither ulong nor symbol"},
		{"descriptor is described", "000053014040", "descriptor is neither ulong nor symbol"},
		{"descriptor without value", "005301", "value missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := unhex(t, c.bytes)
			var d *DecodeError
			if _, _, err := DecodeValue(b, DefaultLimits); !errors.As(err, &d) || !strings.HasPrefix(d.Reason, c.reason) {
				t.Fatalf("decode: %v, want %q", err, c.reason)
			}
			if d.Offset < 0 || d.Offset > len(b) {
				t.Errorf("offset %d of %d bytes", d.Offset, len(b))
			}
			if _, err := SkipValue(b, DefaultLimits); err == nil {
				t.Error("skip: no error")
			}
		})
	}
}

func TestErrorTexts(t *testing.T) {
	_, err := SkipValue([]byte{CodeUbyte}, DefaultLimits)
	if got := err.Error(); got != "amqp: byte 1: value cut short" {
		t.Errorf(`%+v, want "amqp: byte 1: value cut short"`, got)
	}
	_, err = ParseFrameHeader(nil)
	if got := err.Error(); got != "amqp: stream byte 0: frame header cut short" {
		t.Errorf(`%+v, want "amqp: stream byte 0: frame header cut short"`, got)
	}
}

// Keys of different types are different keys.
func TestKeysOfDifferentTypes(t *testing.T) {
	m := Map{
		{"1", nil}, {Symbol("1"), nil}, {[]byte("1"), nil}, {uint32(1), nil}, {uint64(1), nil}, {int32(1), nil}, {int64(1), nil},
		{uint8(1), nil}, {int8(1), nil}, {uint16(1), nil}, {int16(1), nil}, {true, nil}, {false, nil}, {nil, nil},
		{Timestamp(1), nil}, {sampleUUID, nil}, {Char(1), nil}, {float32(1), nil}, {1.0, nil}, {uint64(1 << 63), nil},
	}
	if _, err := SkipValue(AppendValue(nil, m[:16]), DefaultLimits); err != nil {
		t.Error(err)
	}
	if _, err := SkipValue(AppendValue(nil, m), DefaultLimits); err != nil {
		t.Error(err)
	}
}

// Duplicates are found in maps of any size, wherever they are, and quickly.
func TestDuplicateKeysInLargeMaps(t *testing.T) {
	for _, pairs := range []int{2, fewKeys - 1, fewKeys, fewKeys + 1, 1000, 32767} {
		m := make(Map, pairs)
		for i := range m {
			m[i] = Pair{fmt.Sprint("key", i), List{true}}
		}
		if _, err := SkipValue(AppendValue(nil, m), DefaultLimits); err != nil {
			t.Errorf("%d pairs: %v", pairs, err)
		}
		for _, at := range []int{1, pairs / 2, pairs - 1} {
			if at == 0 {
				continue
			}
			was := m[at].Key
			m[at].Key = m[0].Key
			if _, err := SkipValue(AppendValue(nil, m), DefaultLimits); err == nil {
				t.Errorf("%d pairs, key 0 again at %d: no error", pairs, at)
			}
			m[at].Key = was
		}
	}
}

func TestSkipValueDoesNotAllocate(t *testing.T) {
	few := AppendValue(nil, List{
		Map{{"a", "b"}, {Symbol("c"), List{uint64(1), Described{uint64(1), "x"}}}}, symbolArray("a", "b"),
	})
	many := mapOf(1000)
	if _, err := SkipValue(many, DefaultLimits); err != nil { // fills the pool
		t.Fatal(err)
	}
	cases := map[string][]byte{"few keys": few, "many keys": many}
	if raceDetector {
		delete(cases, "many keys") // they need the pool
	}
	for name, b := range cases {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := SkipValue(b, DefaultLimits); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
