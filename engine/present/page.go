package present

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// freshFor is how long the counts of all entities are used again: many viewers cost as much as one.
const freshFor = time.Second

// Namespace answers questions about the present of a [Source]. Any number of goroutines may ask.
type Namespace struct {
	src     Source
	clock   func() time.Time
	readers func() Reader // nil: no message can be read
	sampler sampler       // of a running broker
	ended   bool          // the source is the end of a log

	mu    sync.Mutex // guards what follows, and is held while entities are counted
	table *table     // nil: not counted yet
	taken time.Time  // when
}

// New returns a Namespace that answers from a source. The clock tells the age of counts and how
// long an answer takes.
func New(src Source, clock func() time.Time) *Namespace {
	return &Namespace{src: src, clock: clock, sampler: newSampler()}
}

// Ended says that the source is the end of the logs of a directory, and returns the namespace. It
// is called before the first question.
func (n *Namespace) Ended() *Namespace {
	n.ended = true
	return n
}

// unrecorded returns the names of the parts of an answer that no log has.
func (n *Namespace) unrecorded(parts ...string) []string {
	if n.ended {
		return parts
	}
	return nil
}

// ReadWith sets the function that makes a reader of stored messages for each answer that may need
// one, and returns the namespace. It is called before the first question.
func (n *Namespace) ReadWith(readers func() Reader) *Namespace {
	n.readers = readers
	return n
}

// sorts are the orders of entities besides that of their paths, by the column of the answer. Each
// begins with the largest value, and with the oldest time.
var sorts = map[string]func(*entity) int64{
	"messages":           func(e *entity) int64 { return int64(e.Messages) },
	"active":             func(e *entity) int64 { return int64(e.Active) },
	"locked":             func(e *entity) int64 { return int64(e.Locked) },
	"deferred":           func(e *entity) int64 { return int64(e.Deferred) },
	"scheduled":          func(e *entity) int64 { return int64(e.Scheduled) },
	"deadLetter":         func(e *entity) int64 { return int64(e.DeadLetter) },
	"transfer":           func(e *entity) int64 { return int64(e.Transfer) },
	"transferDeadLetter": func(e *entity) int64 { return int64(e.TransferDeadLetter) },
	"sizeBytes":          func(e *entity) int64 { return e.SizeBytes },
	"oldest":             func(e *entity) int64 { return age(e.oldest) },
	"oldestDeadLetter":   func(e *entity) int64 { return age(e.oldestDead) },
	"received":           func(e *entity) int64 { return milli(e, func(r *rows.Rates) float64 { return r.Received }) },
	"delivered":          func(e *entity) int64 { return milli(e, func(r *rows.Rates) float64 { return r.Delivered }) },
	"completed":          func(e *entity) int64 { return milli(e, func(r *rows.Rates) float64 { return r.Completed }) },
	"failed":             func(e *entity) int64 { return milli(e, func(r *rows.Rates) float64 { return r.Failed }) },
	"died":               func(e *entity) int64 { return milli(e, func(r *rows.Rates) float64 { return r.Died }) },
}

// Sorts returns the names of the orders that a [rows.Query] can have.
func Sorts() []string { return append([]string{"path"}, slices.Sorted(maps.Keys(sorts))...) }

// Entities returns a page of the entities. An error wraps [ErrQuestion] if the query is at fault.
func (n *Namespace) Entities(ctx context.Context, q rows.Query) (rows.Entities, error) {
	order, value, err := sortOf(q.Sort)
	if err != nil {
		return rows.Entities{}, err
	}
	top, err := topOf(q.Top)
	if err != nil {
		return rows.Entities{}, err
	}
	after, err := parseCursor(q.After)
	if known := slices.Sorted(maps.Values(kinds)); err == nil && q.Kind != "" && !slices.Contains(known, strings.ToLower(q.Kind)) {
		err = fmt.Errorf("%w: unknown kind %.40q; the kinds are %s", ErrQuestion, q.Kind, strings.Join(known, ", "))
	}
	if err != nil {
		return rows.Entities{}, err
	}
	t, list, err := n.sorted(ctx, order, value)
	if err != nil {
		return rows.Entities{}, err
	}
	page := rows.Entities{At: t.at.Std().UTC(), Entities: []rows.Entity{}, NotRecorded: n.unrecorded("rates")}
	prefix, all := strings.ToLower(q.Prefix), q.Prefix == "" && q.Kind == ""
	var last *entity
	for _, e := range list {
		if all && page.Next != "" { // the rest only counts
			page.Total = len(list)
			break
		}
		if !strings.HasPrefix(e.lower, prefix) || q.Kind != "" && !strings.EqualFold(q.Kind, kindOf(e.Entry)) {
			continue
		}
		page.Total++
		switch {
		case after != nil && !after.isBefore(value(e), e.lower):
		case len(page.Entities) < top:
			page.Entities = append(page.Entities, e.row())
			last = e
		case page.Next == "":
			page.Next = cursor{value(last), last.lower}.String()
		}
	}
	return page, nil
}

// sortOf returns the name and the value of an order.
func sortOf(name string) (string, func(*entity) int64, error) {
	if name == "" || strings.EqualFold(name, "path") {
		return "path", func(*entity) int64 { return 0 }, nil
	}
	for column, value := range sorts {
		if strings.EqualFold(name, column) {
			return column, value, nil
		}
	}
	return "", nil, fmt.Errorf("%w: unknown sort %.40q; the sorts are %s", ErrQuestion, name, strings.Join(Sorts(), ", "))
}

// topOf returns the number of rows of an answer.
func topOf(top int) (int, error) {
	if top < 0 || top > rows.Max {
		return 0, fmt.Errorf("%w: top is %d, and must be 1 to %d", ErrQuestion, top, rows.Max)
	}
	return cmp.Or(top, rows.Max), nil
}

// sorted returns all entities and their order.
func (n *Namespace) sorted(ctx context.Context, order string, value func(*entity) int64) (*table, []*entity, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t, err := n.count(ctx)
	if err != nil {
		return nil, nil, err
	}
	return t, t.by(order, value), nil
}

// counts returns all entities with their counts.
func (n *Namespace) counts(ctx context.Context) (*table, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count(ctx)
}

// by returns the entities in an order, and those that are equal in it by path. The caller holds the
// mutex of the namespace.
func (t *table) by(order string, value func(*entity) int64) []*entity {
	list, ok := t.orders[order]
	if !ok {
		list = make([]*entity, len(t.all))
		for i := range t.all {
			list[i] = &t.all[i]
		}
		slices.SortFunc(list, func(a, b *entity) int {
			return cmp.Or(cmp.Compare(value(b), value(a)), cmp.Compare(a.lower, b.lower))
		})
		t.orders[order] = list
	}
	return list
}

// cursor is the place of a row in an order: what comes after it has a smaller value, or the same
// value and a later path. So the next page continues there even if counts have changed.
type cursor struct {
	value int64
	lower string // the path in lower case
}

// String returns the cursor as text.
func (c cursor) String() string { return strconv.FormatInt(c.value, 36) + "/" + c.lower }

// isBefore reports whether a row comes after the cursor.
func (c *cursor) isBefore(value int64, lower string) bool {
	return value < c.value || value == c.value && lower > c.lower
}

func parseCursor(text string) (*cursor, error) {
	if text == "" {
		return nil, nil
	}
	number, path, ok := strings.Cut(text, "/")
	value, err := strconv.ParseInt(number, 36, 64)
	if !ok || err != nil {
		return nil, fmt.Errorf("%w: after %.40q is not the value of next of another page", ErrQuestion, text)
	}
	return &cursor{value, strings.ToLower(path)}, nil
}

// count returns all entities with counts that are at most freshFor old. The caller holds mu.
func (n *Namespace) count(ctx context.Context) (*table, error) {
	if n.table != nil && n.clock().Sub(n.taken) < freshFor {
		return n.table, nil
	}
	list, err := n.src.Entries(ctx)
	if err != nil {
		return nil, err
	}
	t := &table{at: n.src.Now(), all: make([]entity, len(list)), orders: map[string][]*entity{}}
	for i := range list {
		t.all[i] = newEntity(&list[i])
	}
	if err := n.countEntities(ctx, t.all); err != nil {
		return nil, err
	}
	t.sum = t.add()
	n.table, n.taken = t, n.clock()
	return t, nil
}

// countEntities counts what entities have, now, and adds what happened to their messages.
func (n *Namespace) countEntities(ctx context.Context, all []entity) error {
	if err := countAll(ctx, n.src, all); err != nil {
		return err
	}
	n.sampler.addRates(n.src.Now(), all)
	return nil
}

// Entity returns an entity with its current counts, by its path in any letter case. An error wraps
// [ErrNotFound] if there is none.
func (n *Namespace) Entity(ctx context.Context, path string) (rows.Entity, error) {
	e, err := n.find(ctx, path)
	if err != nil {
		return rows.Entity{}, err
	}
	one := []entity{newEntity(&e)}
	if err := n.countEntities(ctx, one); err != nil {
		return rows.Entity{}, err
	}
	return one[0].row(), nil
}

// find returns the entity of a path.
func (n *Namespace) find(ctx context.Context, path string) (Entry, error) {
	list, err := n.src.Entries(ctx)
	if err != nil {
		return Entry{}, err
	}
	for i := range list {
		if strings.EqualFold(list[i].Path, path) {
			return list[i], nil
		}
	}
	return Entry{}, fmt.Errorf("%w: there is no entity %.300q", ErrNotFound, path)
}

// age orders times from the oldest on; 0, which is none, comes last.
func age(t event.Time) int64 {
	if t == 0 {
		return math.MinInt64
	}
	return -int64(t)
}

// milli returns a rate of an entity in messages per 1000 seconds; 0 if it is not recorded.
func milli(e *entity, of func(*rows.Rates) float64) int64 {
	if e.rates == nil {
		return 0
	}
	return int64(1000 * of(e.rates))
}
