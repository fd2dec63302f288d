package loop

import (
	"testing"
	"time"
)

// MA-159: a loop that is held up by a disk that is known to hang is live: a new process would wait
// for the same disk.
func TestLiveWhileTheDiskHangs(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	sick := &ailingDisk{Writer: h.loop.frames.writer, hangs: time.Now()}
	h.loop.frames.writer = sick
	h.loop.turn.Store(int64(time.Since(programBegan) - time.Minute))
	if d := h.loop.Stuck(); d != 0 {
		t.Errorf("while the disk hangs: stuck for %v", d)
	}
	sick.hangs = time.Time{}
	if h.loop.Stuck() == 0 {
		t.Error("a stuck loop is live where no disk hangs")
	}
}
