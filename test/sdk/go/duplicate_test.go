package sdkgo

import "time"

var duplicates = group{
	"duplicate-dropped":       duplicateDropped,
	"duplicate-scheduled":     duplicateScheduled,
	"duplicate-window":        duplicateWindow,
	"duplicate-survives-kill": duplicateSurvivesKill,
}

func duplicateDropped(b *bus) {
	x := withID("1", "X")
	x.ApplicationProperties = map[string]any{"colour": "red"}
	b.post(withID("1", "A"), x, withID("2", "B"))
	b.wantTexts(b.peekAll(peekLock), "A", "B")
	r := b.receiver()
	b.complete(r, b.one(r, "A"))
	b.bury(r, b.one(r, "B"))
	b.postBatch(withID("1", "Y"), withID("3", "C"), withID("2", "Z"), withID("3", "W"))
	b.post(withID("3", "V"))
	b.one(r, "C")
	b.nothing(r)
	b.wantTexts(b.peekAll(peekLock), "C")
	b.wantTexts(b.peekAll(deadLetters), "B")
}

func duplicateScheduled(b *bus) {
	r := b.receiver()
	b.warmUp(r)
	due := soon(4 * time.Second)
	b.schedule(due, withID("1", "A"))
	b.post(withID("1", "X"), withID("2", "B"))
	b.schedule(due, withID("2", "Y"))
	b.take(r, "B", "A")
	b.nothing(r)
	all := b.peekAll(peekLock)
	b.wantEach(bodies(all), []string{"A", "B"}) // A has a number of its activation
}

func duplicateWindow(b *bus) {
	b.post(withID("1", "A"))
	first := time.Now()
	time.Sleep(10 * time.Second)
	b.post(withID("1", "X"))
	b.wantTexts(b.peekAll(peekLock), "A")
	time.Sleep(time.Until(first.Add(21 * time.Second)))
	b.post(withID("1", "B"))
	b.wantTexts(b.peekAll(peekLock), "A", "B")
}

func duplicateSurvivesKill(b *bus) {
	b.post(withID("1", "A"), withID("2", "B"))
	r := b.receiver()
	b.complete(r, b.one(r, "A"))
	b.kill(nil)
	b.post(withID("1", "X"), withID("2", "Y"), withID("3", "C"))
	b.wantTexts(b.peekAll(peekLock), "B", "C")
}
