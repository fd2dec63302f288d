package background

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const planHour = event.Time(3_600_000)

// pasts returns files of 100 bytes: five of partition 0, whose newest records are from the hours
// 10, 20 … 50, and two of partition 1, from the hours 15 and 45. All have events and bodies of
// entity 1, and the third of partition 0 also has those of entity 2.
func pasts() (files []pastFile) {
	add := func(p engine.PartitionID, hours ...int) {
		for i, h := range hours {
			f := pastFile{partition: p, name: fmt.Sprintf("%d-%d", p, h), first: event.LSN(8 + 100*i), end: event.LSN(108 + 100*i), newest: event.Time(h) * planHour, stored: 100,
				entities: []event.EntityID{1}, withBodies: []event.EntityID{1}}
			if p == 0 && h == 30 {
				f.entities, f.withBodies = []event.EntityID{1, 2}, []event.EntityID{1, 2}
			}
			files = append(files, f)
		}
	}
	add(0, 10, 20, 30, 40, 50)
	add(1, 15, 45)
	return files
}

// planCase has policies and files, and the expected plan.
type planCase struct {
	said   string // pattern=policy, words; of the namespace without a pattern
	disk   int64
	need   int64
	since  event.Time // hour; 0: 1
	cuts   string     // partition:newest deleted file
	bodies string     // file:entities
	forced bool
	cause  event.CutCause // of one of the cuts
	now    int            // hour; 0: 60
	held   string         // part of one of the lines
	bases  []event.LSN    // of partition 0
	saved  int64          // bytes of checkpoints
}

func (c *planCase) check(t *testing.T) {
	t.Helper()
	o := outlook{files: pasts(), now: event.Time(cmp.Or(c.now, 60)) * planHour, disk: c.disk, need: c.need, rules: saidOf(t, c.said, max(c.since, 1)*planHour),
		bases: map[engine.PartitionID][]event.LSN{0: c.bases}, saved: c.saved}
	o.policyOf = func(id event.EntityID) event.HistoryPolicy { return o.rules.Said([]string{"", "one", "two"}[id]) }
	p := o.plan()
	if got := shownCuts(&o, &p); got != c.cuts {
		t.Errorf("cuts %q, not %q", got, c.cuts)
	}
	if got := shownBodies(&p); got != c.bodies {
		t.Errorf("bodies %q, not %q", got, c.bodies)
	}
	if (len(p.forced) > 0) != c.forced || !strings.Contains(strings.Join(p.held, "\n"), c.held) {
		t.Errorf("forced %v, held %q", p.forced, p.held)
	}
	if c.cause != 0 && !slices.Contains(slices.Collect(maps.Values(p.forced)), c.cause) {
		t.Errorf("forced %v, not for %v", p.forced, c.cause)
	}
	if o.idle() && (c.cuts != "" || c.bodies != "") {
		t.Error("it is taken for idle")
	}
}

// TestHistoryPlan: what may be deleted at hour 60. Entity 1 is "one", entity 2 "two"; a policy is
// events/bodies/undo, with a dash for an unset part.
func TestHistoryPlan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]planCase{
		"nothing is said":                       {bodies: "0-10:1 1-15:1 0-20:1 0-30:1,2", held: "events of entity 1, kept 7d"},
		"nothing is said, small disk":           {disk: 1000, cuts: "0:40 1:45", bodies: "", forced: true, cause: event.CutForShare},
		"the defaults":                          {said: "-", now: 24*7 + 20, cuts: "0:20 1:15", bodies: "0-30:1,2 0-40:1 1-45:1 0-50:1"},
		"all is kept, in words":                 {said: "unlimited/unlimited/unlimited"},
		"events of 35 hours, no undo":           {said: "35h/unlimited/none", cuts: "0:20 1:15", held: "0-30: events of entity 1, kept 1d11h"},
		"to the hour":                           {said: "30h/unlimited/none", cuts: "0:30 1:15"},
		"a ms longer":                           {said: "108000001ms/unlimited/none", cuts: "0:20 1:15"},
		"no events at all":                      {said: "none/unlimited/none", cuts: "0:50 1:45"},
		"the undo window keeps events":          {said: "none/unlimited/42h", cuts: "0:10 1:15", held: "0-20: undo of entity 1, kept 1d18h"},
		"one entity holds up the log":           {said: "none/unlimited/none two=unlimited/-/-", cuts: "0:20 1:45", held: "0-30: events of entity 2, kept unlimited"},
		"one entity alone lets nothing go":      {said: "unlimited/unlimited/unlimited two=none/-/none", cuts: "", held: "0-10: events of entity 1"},
		"bodies anywhere":                       {said: "unlimited/25h/unlimited", bodies: "0-10:1 1-15:1 0-20:1 0-30:1,2"},
		"bodies of one entity":                  {said: "unlimited/unlimited/unlimited two=-/none/-", bodies: "0-30:2"},
		"bodies of all but one":                 {said: "unlimited/none/- two=-/unlimited/-", bodies: "0-10:1 1-15:1 0-20:1 0-30:1 0-40:1 1-45:1 0-50:1"},
		"bodies where events do not go":         {said: "35h/none/none", cuts: "0:20 1:15", bodies: "0-30:1,2 0-40:1 1-45:1 0-50:1", held: "kept 1d11h"},
		"a share":                               {said: "unlimited/unlimited/unlimited share=20", disk: 2500, cuts: "0:20 1:15", forced: true, cause: event.CutForShare},
		"a share that is enough":                {said: "unlimited/unlimited/unlimited share=70", disk: 1000},
		"a share that is just enough":           {said: "unlimited/unlimited/unlimited share=20", disk: 3500},
		"a share with checkpoints":              {said: "unlimited/unlimited/unlimited share=20", disk: 3500, saved: 100, cuts: "0:10 1:15", forced: true, cause: event.CutForShare},
		"a share of a disk nobody knows":        {said: "unlimited/unlimited/unlimited share=1"},
		"a share after what may go anyway":      {said: "35h/unlimited/none share=43", disk: 1000, cuts: "0:20 1:15", held: "kept 1d11h"},
		"a share, more than may go":             {said: "35h/unlimited/none share=20", disk: 1000, cuts: "0:40 1:45", forced: true},
		"low":                                   {said: "unlimited/unlimited/unlimited", need: 250, disk: 10_000, cuts: "0:20 1:15", forced: true, cause: event.CutForRoom},
		"low, and a base behind what is needed": {said: "unlimited/unlimited/unlimited", need: 50, disk: 10_000, bases: []event.LSN{300}, cuts: "0:30", forced: true, cause: event.CutForRoom},
		"low, and a base in front of it":        {said: "unlimited/unlimited/unlimited", need: 50, disk: 10_000, bases: []event.LSN{50}, cuts: "0:10", forced: true, cause: event.CutForRoom},
		"low, a base only with undo":            {said: "unlimited/unlimited/31h", need: 250, disk: 10_000, bases: []event.LSN{300}, cuts: "0:30 1:15", forced: true},
		"a share, and a base behind it":         {said: "unlimited/unlimited/unlimited share=20", disk: 2500, bases: []event.LSN{400}, cuts: "0:40", forced: true, cause: event.CutForShare},
		"low, history before sends":             {need: 250, disk: 10_000, said: "unlimited/unlimited/unlimited before-sends"},
		"low, with a share, before sends":       {need: 250, disk: 1000, said: "unlimited/unlimited/unlimited before-sends share=60", cuts: "0:10 1:15", forced: true},
		"low, undo goes last":                   {need: 250, said: "unlimited/unlimited/42h", cuts: "0:20 1:15", forced: true},
		"low, undo goes last, older or not":     {need: 400, said: "unlimited/unlimited/none two=-/-/42h", cuts: "0:20 1:45", forced: true, cause: event.CutForRoom},
		"low, and undo as well":                 {need: 450, said: "unlimited/unlimited/none two=-/-/42h", cuts: "0:30 1:45", forced: true, cause: event.CutForRoom},
		"a share, undo goes last":               {said: "unlimited/unlimited/none share=40 two=-/-/42h", disk: 1000, cuts: "0:20 1:45", forced: true, cause: event.CutForShare},
		"a share, and a base only with undo":    {said: "unlimited/unlimited/none share=60 two=-/-/42h", disk: 1000, bases: []event.LSN{300}, cuts: "1:45", forced: true, cause: event.CutForShare},
		"low, as far as there is any":           {need: 1 << 40, cuts: "0:50 1:45", forced: true},
		"upgrade an hour ago, a retention said": {said: "two=-/none/- 35h/unlimited/none", since: 59, cuts: "0:20 1:15", bodies: "0-30:2"},
		"upgrade an hour ago, low":              {need: 50, since: 59, said: "two=-/none/-", cuts: "0:10", bodies: "0-30:2", forced: true, cause: event.CutForRoom},
		"upgrade an hour ago, over the share":   {disk: 1000, since: 59, said: "-"},
		"upgrade at 42, over the share":         {disk: 1000, since: 42, said: "-"},
		"a new directory, over the share":       {disk: 1000, since: 1, now: 20, said: "-", cuts: "0:40 1:45", forced: true, cause: event.CutForShare},
		"upgrade a day ago, over the share":     {disk: 1000, since: 36, said: "-", cuts: "0:40 1:45", forced: true, cause: event.CutForShare},
		"upgrade an hour ago, share said":       {disk: 1000, since: 59, said: "- share=20", cuts: "0:40 1:45", forced: true, cause: event.CutForShare},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}

// TestHistoryPlanOfChapters: unsealed chapters are deleted only if no history of any entity is
// kept, because their entities are unknown. After a file that stays they stay.
func TestHistoryPlanOfChapters(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"none/unlimited/none":         "0:52 1:45",
		"none/none/none two=-/-/none": "0:52 1:45",
		"1ms/none/none":               "0:50 1:45",
		"none/none/1ms":               "0:50 1:45",
		"none/none/none two=1ms/-/-":  "0:50 1:45",
		"none/none/none two=-/-/1ms":  "0:50 1:45",
		"none/none/none two=-/1h/-":   "0:52 1:45",
		"unlimited/none/none":         "",
	} {
		o := outlook{files: pasts(), now: 60 * planHour, rules: saidOf(t, said, planHour)}
		for _, hour := range []event.Time{51, 52} {
			o.files = slices.Insert(o.files, 5+int(hour-51), pastFile{partition: 0, first: event.LSN(508 + (hour-51)*100), end: event.LSN(608 + (hour-51)*100), newest: hour * planHour, stored: 100, pending: true})
		}
		o.policyOf = func(id event.EntityID) event.HistoryPolicy { return o.rules.Said([]string{"", "one", "two"}[id]) }
		p := o.plan()
		if got := shownCuts(&o, &p); got != want {
			t.Errorf("%s: cuts %q, not %q", said, got, want)
		}
	}
	o := outlook{files: pasts(), now: 60 * planHour, need: 1 << 40, rules: saidOf(t, "unlimited/unlimited/unlimited", planHour)}
	o.policyOf = func(event.EntityID) event.HistoryPolicy { return o.rules.Whole().Policy }
	o.files = slices.Insert(o.files, 5, pastFile{partition: 0, first: 508, end: 608, newest: 51 * planHour, stored: 100, pending: true})
	if p := o.plan(); shownCuts(&o, &p) != "0:50 1:45" {
		t.Errorf("low: cuts %q", shownCuts(&o, &p))
	}
}

// History from before an upgrade stays for a day after it, if only the defaults would delete it.
func TestHistoryGrace(t *testing.T) {
	t.Parallel()
	const since = 40 * planHour
	rules := &engine.HistoryPolicies{Since: since}
	for _, c := range []struct {
		newest, now event.Time
		said        event.Retention
		want        bool
	}{
		{since - 1, since + upgradeGrace - 1, 0, false}, {since - 1, since + upgradeGrace, 0, true}, {since, since + upgradeGrace - 1, 0, true},
		{since - 1, since + 1, event.KeepNone, true}, {since - 1, since + upgradeGrace, event.KeepForever, false},
	} {
		o := outlook{now: c.now, rules: rules}
		if got := o.mayDelete(c.said, event.KeepNone, &pastFile{newest: c.newest}); got != c.want {
			t.Errorf("%+v: %v, want %v", c, got, c.want)
		}
	}
}

// saidOf returns the history policies that texts describe.
func saidOf(t *testing.T, text string, since event.Time) *engine.HistoryPolicies {
	t.Helper()
	if text == "" {
		return nil
	}
	x, whole, hasWhole := index.New(), event.HistoryPolicySet{}, false
	for word := range strings.FieldsSeq(text) {
		pattern, policy, of := strings.Cut(word, "=")
		switch {
		case word == "before-sends":
			whole.BeforeSends, hasWhole = true, true
		case pattern == "share":
			if _, err := fmt.Sscan(policy, &whole.Share); err != nil {
				t.Fatal(err)
			}
			hasWhole = true
		case of:
			x.Apply(since, &event.HistoryPolicySet{Pattern: pattern, Policy: policyOf(t, policy)})
		case word == "-":
			hasWhole = true
		default:
			whole.Policy, hasWhole = policyOf(t, word), true
		}
	}
	if hasWhole {
		x.Apply(since, &whole)
	}
	return x.Catalogue.History()
}

func policyOf(t *testing.T, text string) (p event.HistoryPolicy) {
	t.Helper()
	parts := strings.Split(text, "/")
	for i, into := range []*event.Retention{&p.Events, &p.Bodies, &p.Undo} {
		if parts[i] == "-" {
			continue
		}
		var err error
		if *into, err = event.ParseRetention(parts[i]); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func shownCuts(o *outlook, p *plan) string {
	var words []string
	for _, id := range []engine.PartitionID{0, 1} {
		if upTo := p.cuts[id]; upTo > 0 {
			i := slices.IndexFunc(o.files, func(f pastFile) bool { return f.partition == id && f.end == upTo })
			words = append(words, fmt.Sprintf("%d:%d", id, o.files[i].newest/planHour))
		}
	}
	return strings.Join(words, " ")
}

func shownBodies(p *plan) string {
	var words []string
	for _, b := range p.bodies {
		words = append(words, b.file.name+":"+strings.ReplaceAll(strings.Trim(fmt.Sprint(b.entities), "[]"), " ", ","))
	}
	return strings.Join(words, " ")
}
