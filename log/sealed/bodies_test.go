package sealed

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// bodiesFile writes a file of bodies. Some are longer than a block, some are adjacent, and none
// overlap.
func bodiesFile(t testing.TB, rng *rand.Rand, count int) (file []byte, foot Footer, rows []Kept, bodies map[event.Position][]byte) {
	t.Helper()
	bodies = map[event.Position][]byte{}
	at := event.Position(1 << 20)
	for i := range count {
		p := make([]byte, 1+rng.IntN(2000))
		if i%7 == 3 {
			p = make([]byte, 150_000)
		}
		for k := range p {
			p[k] = byte(rng.IntN(1 + i%256))
		}
		if i%3 > 0 {
			at += event.Position(rng.IntN(5000))
		}
		rows = append(rows, Kept{Position: at, Size: uint32(len(p)), Sum: event.Sum(p), Slice: event.Slice{Entity: event.EntityID(1 + i%3), Partition: uint8(i % 2)}, Number: event.SequenceNumber(i)})
		bodies[at] = p
		at += event.Position(len(p))
	}
	h := Header{Partition: 3, Tag: 9, Chapter: 7, Revision: 2, First: 1 << 20, End: (event.LSN(at) + 15) &^ 7, Chain: 77}
	var out bytes.Buffer
	foot, err := WriteBodies(&out, h, Footer{Before: 4, Epoch: 5, Last: 78, Boot: "boot-5"}, rows, func(k *Kept) ([]byte, error) { return bodies[k.Position], nil })
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), foot, rows, bodies
}

// A file of bodies has the bodies that it was given, and says nothing of records.
func TestFileOfBodies(t *testing.T) {
	t.Parallel()
	for _, count := range []int{0, 1, 2, 60} {
		p, foot, rows, bodies := bodiesFile(t, rand.New(rand.NewPCG(uint64(count), 71)), count)
		f := open(t, p)
		if _, err := f.CheckBodies(); err != nil || f.Footer != foot || !foot.Alone || !f.Header.Alone || foot.Frames != 0 || foot.Epoch != 5 || foot.Boot != "boot-5" || foot.Durable != foot.End {
			t.Fatalf("%d bodies: %v, %+v", count, err, f.Footer)
		}
		if got, err := f.Kept(); err != nil || !slices.Equal(got, rows) {
			t.Errorf("%d bodies: rows %v; %v", count, got, err)
		}
		blocks, err := f.Index(Bodies)
		if err != nil {
			t.Fatal(err)
		}
		for at, want := range bodies {
			var got []byte
			for i := Holding(blocks, event.LSN(at)); len(got) < len(want); i++ {
				d, err := f.Read(blocks, i)
				if err != nil {
					t.Fatal(err)
				}
				here := d.At(event.LSN(at) + event.LSN(len(got)))
				got = append(got, here[:min(len(here), len(want)-len(got))]...)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bodies: the one at %d is another", count, at)
			}
		}
		c, err := f.Contents()
		if err != nil || len(c.Kinds)+len(c.Origins) > 0 || len(c.Slices) != min(count, 6) {
			t.Errorf("%d bodies: contents %+v; %v", count, c, err)
		}
		n := uint64(0)
		for _, s := range c.Slices {
			n += s.BodyBytes
		}
		if n != foot.BodyBytes || foot.ErasedBytes != 0 {
			t.Errorf("%d bodies: %d bytes in contents, %d in the footer", count, n, foot.BodyBytes)
		}
	}
}

// Whatever byte of a file of bodies is changed, something says so.
func TestFileOfBodiesFlips(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 71))
	p, _, _, _ := bodiesFile(t, rng, 30)
	digest := open(t, p).Digest
	for range 1000 {
		flip(t, p, digest, rng.IntN(len(p)), byte(1+rng.IntN(255)))
	}
}

// If digests were made to match, bodies are still compared with their rows: a body with other
// bytes, a missing body, or one without a row.
func TestFileOfBodiesIsChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(rows *[]Kept, bodies map[event.Position][]byte){
		"other bytes":   func(rows *[]Kept, bodies map[event.Position][]byte) { bodies[(*rows)[3].Position][0] ^= 1 },
		"other sum":     func(rows *[]Kept, _ map[event.Position][]byte) { (*rows)[29].Sum++ },
		"too few bytes": func(rows *[]Kept, bodies map[event.Position][]byte) { bodies[(*rows)[29].Position] = nil },
		"too many bytes": func(rows *[]Kept, bodies map[event.Position][]byte) {
			at := (*rows)[29].Position
			bodies[at] = append(bodies[at], 0)
		},
	} {
		_, foot, rows, bodies := bodiesFile(t, rand.New(rand.NewPCG(9, 71)), 30)
		change(&rows, bodies)
		var out bytes.Buffer
		h := Header{Partition: 3, Tag: 9, Chapter: 7, Revision: 2, First: foot.First, End: foot.End, Chain: 77}
		if _, err := WriteBodies(&out, h, foot, rows, func(k *Kept) ([]byte, error) { return bodies[k.Position], nil }); err != nil {
			t.Fatal(err)
		}
		if at, err := open(t, out.Bytes()).CheckBodies(); !errors.Is(err, format.ErrDamaged) {
			t.Errorf("%s: byte %d, %v", name, at, err)
		}
	}
}

// FuzzKept: rows that decode encode to the same bytes, are in order and do not overlap; anything
// that opens as a file can be checked.
func FuzzKept(f *testing.F) {
	p, foot, _, _ := bodiesFile(f, rand.New(rand.NewPCG(1, 71)), 20)
	f.Add(p[foot.Parts[keptAt].Offset:][:foot.Parts[keptAt].Length])
	f.Add(p)
	f.Fuzz(func(t *testing.T, p []byte) {
		if rows, err := DecodeKept(p, foot.First, foot.End); err == nil {
			if !bytes.Equal(encodeKept(rows), p) {
				t.Fatal("rows")
			}
			for i := range rows {
				if i > 0 && event.LSN(rows[i].Position) < rows[i-1].end() || rows[i].end() > foot.End {
					t.Fatal(fmt.Sprint("row ", i))
				}
			}
		}
		if file, err := Open(bytes.NewReader(p), int64(len(p))); err == nil && file.Footer.Alone {
			if at, err := file.CheckBodies(); err != nil && (at < 0 || at > int64(len(p))) {
				t.Fatal(at)
			}
		}
	})
}
