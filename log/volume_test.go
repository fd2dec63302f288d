package log_test

import (
	"errors"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// The volumes of a log have all frames with records, each in one part with its time, and the bytes
// of sealed parts are those of their frames. A range leaves out sealed parts of other times.
func TestVolumes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		w, _ := sealedLog(t, seed)
		o := w.opts
		o.ReadOnly = true
		s, err := log.Open(ctx, simDir, o)
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Open(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		volumes := func(from, until event.Time) (list []log.Volume) {
			t.Helper()
			if err := log.Volumes(ctx, p, from, until, func(v log.Volume) error { list = append(list, v); return nil }); err != nil {
				t.Fatal(err)
			}
			return list
		}
		all, i := volumes(0, event.EndOfTime), 0
		var stored, every, frames, middle uint64
		for f, err := range p.Read(ctx, 0) {
			if err != nil {
				t.Fatal(err)
			}
			for i < len(all) && all[i].To <= f.LSN {
				i++
			}
			if i < len(all) && all[i].Bytes > 0 && all[i].From <= f.LSN {
				every += uint64(f.Next-f.LSN) - uint64(f.Bodies[1]-f.Bodies[0])
			}
			if f.Count == 0 {
				continue
			}
			if i == len(all) || f.LSN < all[i].From || f.Time < all[i].Lowest || all[i].Bytes > 0 && f.Time > all[i].Highest {
				t.Fatalf("seed %d: frame %d of %s is not in %+v", seed, f.LSN, f.Time, all)
			}
			if all[i].Bytes > 0 {
				frames += uint64(f.Next-f.LSN) - uint64(f.Bodies[1]-f.Bodies[0])
				middle = uint64(f.Time)
			}
		}
		for _, v := range all {
			stored += v.Bytes
		}
		if frames == 0 || stored < frames || stored > every+every/10 {
			t.Errorf("seed %d: volumes of %d bytes, frames of %d, %d with those without records", seed, stored, frames, every)
		}
		for _, v := range volumes(event.Time(middle), event.Time(middle)) {
			if v.Bytes > 0 && (v.Lowest > event.Time(middle) || v.Highest < event.Time(middle)) {
				t.Errorf("seed %d: %+v has nothing of %d", seed, v, middle)
			}
		}
		enough := errors.New("enough")
		if err := log.Volumes(ctx, p, 0, event.EndOfTime, func(log.Volume) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("seed %d: %v", seed, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
