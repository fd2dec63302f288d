package sealed

import (
	"crypto/sha256"
	"math/rand/v2"
	"strings"
	"testing"
)

// forge returns a file with one part replaced and its footer changed, and with all the digests that
// it needs to be believed.
func forge(t *testing.T, p []byte, part Part, bytes []byte, change func(*Footer)) []byte {
	t.Helper()
	f := open(t, p)
	foot := f.Footer
	out := append([]byte(nil), p[:HeaderSize]...)
	for i, s := range foot.Parts {
		is := p[s.Offset:s.end()]
		if Part(i) == part {
			is = bytes
		}
		foot.Parts[i] = Span{Offset: int64(len(out)), Length: int64(len(is)), Sum: sha256.Sum256(is)}
		out = append(out, is...)
	}
	if change != nil {
		change(&foot)
	}
	return append(out, foot.Encode()...)
}

func lastChanged(p []byte) []byte {
	p[len(p)-1] ^= 1
	return p
}

// Indexes that do not fit the frames of their file are found, though every digest in it is right.
func TestCheck(t *testing.T) {
	t.Parallel()
	frames := chapter(rand.New(rand.NewPCG(3, 3)))
	whole, _ := frames.seal(t, 1000, nil)
	result := func(p []byte) (int64, error) {
		c, err := NewCheck(open(t, p))
		if err != nil {
			t.Fatal(err)
		}
		for i := range frames.heads {
			h := &frames.heads[i]
			c.Frame(h, frames.bytes[h.LSN-first:][h.RecordsAt():h.RecordsAt()+int64(h.Records)])
		}
		return c.Result()
	}
	f := open(t, whole)
	part := func(i Part) []byte {
		s := f.Footer.Parts[i]
		return append([]byte(nil), whole[s.Offset:s.end()]...)
	}
	rows := func(field int) []byte {
		p := part(RecordIndex)
		p[2*recordRow+field] ^= 8
		return p
	}
	ids := part(IDs)
	contents, err := f.Contents()
	if err != nil {
		t.Fatal(err)
	}
	contents.Kinds[0].Events++
	counted := contents.encode()
	contents.Kinds[0].Events--
	contents.Slices[0].Blocks = contents.Slices[0].Blocks[1:]
	unnamed := contents.encode()
	for name, c := range map[string]struct {
		file   []byte
		part   Part
		reason string
	}{
		"a row names another frame":      {forge(t, whole, RecordIndex, rows(32), nil), RecordIndex, "row 2 does not match"},
		"a row has another time":         {forge(t, whole, RecordIndex, rows(48), nil), RecordIndex, "row 2 does not match"},
		"an id is missing":               {forge(t, whole, IDs, ids[idRow:], nil), IDs, "ids differ"},
		"there are no ids":               {forge(t, whole, IDs, nil, nil), IDs, "ids differ"},
		"one event more is counted":      {forge(t, whole, Summary, compress(nil, counted), func(f *Footer) { f.ContentsSize = uint64(len(counted)) }), Summary, "contents differ"},
		"a block of a slice is missing":  {forge(t, whole, Summary, compress(nil, unnamed), func(f *Footer) { f.ContentsSize = uint64(len(unnamed)) }), Summary, "contents differ"},
		"a page has another checksum":    {forge(t, whole, Summary, lastChanged(part(Summary)), nil), Summary, "pages do not match"},
		"the footer counts otherwise":    {forge(t, whole, parts, nil, func(f *Footer) { f.Events++ }), parts, "counts differ"},
		"the footer has another newest":  {forge(t, whole, parts, nil, func(f *Footer) { f.Newest-- }), parts, "counts differ"},
		"the footer has other durable's": {forge(t, whole, parts, nil, func(f *Footer) { f.Durable -= 8 }), parts, "counts differ"},
	} {
		at, err := result(c.file)
		if err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v; want err != nil && strings.Contains(err.Error(), c.reason)", name, err)
			continue
		}
		size := int64(len(c.file))
		from, to := size-FooterSize, size
		if c.part < parts {
			s := open(t, c.file).Footer.Parts[c.part]
			from, to = s.Offset, s.end()
		}
		if at < from || at > to {
			t.Errorf("%s is at byte %d, in what stands from %d to %d", name, at, from, to)
		}
	}
	if at, err := result(whole); err != nil {
		t.Errorf("a good file, at byte %d: %v", at, err)
	}
}
