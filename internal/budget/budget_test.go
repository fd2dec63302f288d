package budget

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// account is one of 256 MiB: 192 may be in use, and with more than 224 nothing new is taken.
func account(said *bytes.Buffer) *Budget {
	b := New(256<<20, slog.New(slog.NewTextHandler(said, nil)))
	b.collect = func() {}
	return b
}

// F22: guaranteed bytes are never refused, others only while three times as much is left, so that
// later connections find some.
func TestTake(t *testing.T) {
	t.Parallel()
	b := account(new(bytes.Buffer))
	var shares []*Share
	for range 100 {
		s, ok := b.Open()
		if !ok {
			t.Fatal("not opened")
		}
		shares = append(shares, s)
	}
	for i, s := range shares {
		for s.Take(16 << 10) {
		}
		if s.Has() < Promised {
			t.Errorf("share %d has %d bytes", i, s.Has())
		}
		if beyond := int64(s.Has()) - Promised; i < 20 && beyond < b.free()/part-32<<10 {
			t.Errorf("share %d has %d bytes beyond what is promised, and %d are left", i, beyond, b.free())
		}
	}
	if b.free() < 0 {
		t.Errorf("%d bytes are left", b.free())
	}
	if !shares[0].Exceeds(0) || shares[99].Exceeds(16<<10) {
		t.Errorf("%d bytes and %d bytes of %d", shares[0].Has(), shares[99].Has(), b.free())
	}
	shares[1].Owe(1 << 30)
	if s := shares[2]; s.Take(1) {
		t.Error("more is taken than there is")
	}
	if _, ok := b.Open(); ok {
		t.Error("a connection is let in for which there is nothing")
	}
	for _, s := range shares {
		s.Give(s.Has())
		s.Close()
	}
	if b.free() != 192<<20 || b.Taken() != 0 {
		t.Errorf("%d bytes are free, %d taken", b.free(), b.Taken())
	}
}

// Sums are right when many goroutines take and give at the same time.
func TestTakeTogether(t *testing.T) {
	t.Parallel()
	b := account(new(bytes.Buffer))
	s, _ := b.Open()
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 1000 {
				if size := (n + 1) * 10_000; s.Take(size) {
					s.Give(size)
				}
			}
		})
	}
	all.Wait()
	if b.Taken() != 0 || b.over.Load() != 0 || s.Has() != 0 {
		t.Errorf("%d taken, %d beyond, the share has %d", b.Taken(), b.over.Load(), s.Has())
	}
}

// A level is reached at once and left after a while, and is logged once when it begins and once
// when it ends.
func TestLevels(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	b := account(&said)
	pressed := map[Level]int{}
	b.Press(func(l Level) { pressed[l]++ })
	now := time.Unix(1000, 0)
	look := func(after time.Duration, want Level) {
		t.Helper()
		now = now.Add(after)
		if b.Look(now); b.Level() != want {
			t.Errorf("memory is %v, not %v", b.Level(), want)
		}
	}
	found := int64(20 << 20)
	b.measure = func() int64 { return found }
	collected := func() {
		b.noteCollection(now, b.shareBytes())
		b.noteCollection(now, b.shareBytes())
	}
	collected()
	look(0, Enough)
	s, _ := b.Open()
	for s.Take(1 << 20) {
	}
	look(lookEvery, Low)
	look(time.Second, Low)
	found = 240 << 20
	b.noteCollection(now, 0)
	look(0, Low) // once may be chance
	b.noteCollection(now, 0)
	look(0, Critical)
	found = int64(s.Has()) + 20<<20
	collected()
	look(time.Second, Critical)
	s.Give(s.Has())
	found = 20 << 20
	collected()
	look(time.Second, Critical)
	look(calm, Enough)
	if pressed[Enough] != 1 || pressed[Low] < 2 || pressed[Critical] < 1 {
		t.Errorf("told %v", pressed)
	}
	for text, want := range map[string]int{"memory is short": 1, "memory is exhausted": 1, "memory is available again": 1} {
		if n := strings.Count(said.String(), text); n != want {
			t.Errorf("%q is said %d times, not %d:\n%s", text, n, want, &said)
		}
	}
}

// The collector finds memory outside of shares, and it is not counted twice.
func TestMeasured(t *testing.T) {
	t.Parallel()
	b := account(new(bytes.Buffer))
	s, _ := b.Open()
	s.Owe(10 << 20)
	b.measure = func() int64 { return 50 << 20 }
	b.noteCollection(time.Now(), b.shareBytes())
	b.noteCollection(time.Now(), b.shareBytes())
	if got := b.usedBytes(); got != 50<<20 {
		t.Errorf("%d bytes are in use", got)
	}
	s.Owe(10 << 20)
	if got := b.usedBytes(); got != 60<<20 {
		t.Errorf("%d bytes are in use", got)
	}
}

// Without an account there is always enough.
func TestNone(t *testing.T) {
	t.Parallel()
	b := New(0, nil)
	s, ok := b.Open()
	if b != nil || !ok || !s.Take(1<<40) || s.Exceeds(0) || b.Level() != Enough || !b.Since().IsZero() {
		t.Error("there is an account")
	}
	s.Owe(1)
	s.Give(1)
	s.Close()
}

func BenchmarkTakeAndGive(b *testing.B) {
	account := New(1<<40, slog.Default())
	b.RunParallel(func(p *testing.PB) {
		s, _ := account.Open()
		for p.Next() {
			s.Take(128 << 10)
			s.Give(128 << 10)
		}
	})
}
