package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/tools/client"
)

const (
	manyEntities = 10_000
	pageSize     = 100
	pageRepeats  = 20 // requests per page
	// pause before memory is measured, because the collector's pace is set once a second
	idleWait = 3 * time.Second
)

// A manyForm is a namespace with many entities.
type manyForm struct {
	name   string
	file   *entityFile
	queues int // 0: the empty one
}

func manyForms() []manyForm {
	queues := func(n int) []entityEntry {
		all := []entityEntry{largeQueue()}
		for i := range n - 1 {
			all = append(all, entityEntry{Name: fmt.Sprintf("queue-%05d", i)})
		}
		return all
	}
	mixed := &entityFile{Queues: queues(manyEntities / 2)}
	for i := range manyEntities / 4 {
		mixed.Topics = append(mixed.Topics, topicEntry{entityEntry{Name: fmt.Sprintf("topic-%05d", i)}, []subscriptionEntry{{Name: "all"}}})
	}
	return []manyForm{
		{fmt.Sprintf("%d queues", manyEntities), &entityFile{Queues: queues(manyEntities)}, manyEntities},
		{fmt.Sprintf("%d queues, %d topics with a subscription each", manyEntities/2, manyEntities/4), mixed, manyEntities / 2},
	}
}

// many measures the cost of unused entities: time to start, time to list them, memory.
func (s *suite) many(ctx context.Context) error {
	empty, err := s.idle(ctx, manyForm{name: "one queue", file: &entityFile{Queues: []entityEntry{largeQueue()}}}, 0)
	if err != nil {
		return err
	}
	for _, f := range manyForms() {
		if _, err := s.idle(ctx, f, empty); err != nil {
			return err
		}
	}
	return nil
}

// idle measures one namespace and returns its resident memory.
func (s *suite) idle(ctx context.Context, f manyForm, empty int64) (resident int64, err error) {
	b, err := newBroker(s.Program, s.Dir, f.file)
	if err != nil {
		return 0, err
	}
	defer b.remove()
	c, err := s.startTimed(ctx, b, f, "new data directory")
	if err != nil {
		return 0, err
	}
	defer func() { c.kill() }()
	if err := c.stop(); err != nil {
		return 0, err
	}
	if c, err = s.startTimed(ctx, b, f, "after a clean stop"); err != nil {
		return 0, err
	}
	if resident, err = idleMemory(ctx, c); err != nil {
		return 0, err
	}
	if f.queues == 0 {
		return resident, nil // the reference for the others
	}
	mib := float64(resident-empty) / (1 << 20)
	s.Log("%s: %.1f MiB of memory above an empty broker", f.name, mib)
	s.report.add(brokerSide, "idle resident memory above an empty broker, MiB (goal: 64 or less), "+f.name, mib)
	if err := s.pages(ctx, c, f); err != nil {
		return 0, err
	}
	for range s.Restarts {
		c.kill()
		if c, err = s.startTimed(ctx, b, f, "after kill -9, with checkpoint"); err != nil {
			return 0, err
		}
	}
	for range s.Restarts {
		c.kill()
		for _, file := range b.checkpoints() {
			if err := os.Remove(file); err != nil {
				return 0, err
			}
		}
		if c, err = s.startTimed(ctx, b, f, "after kill -9, without checkpoint"); err != nil {
			return 0, err
		}
	}
	return resident, nil
}

// startTimed starts a broker and adds the time until a sender is attached to the report.
func (s *suite) startTimed(ctx context.Context, b *broker, f manyForm, how string) (*child, error) {
	c, err := b.startReady(ctx)
	if err != nil {
		return nil, err
	}
	took := time.Since(c.began)
	s.Log("%s: ready after %v (%s)", f.name, short(took), how)
	s.report.add(brokerSide, fmt.Sprintf("start with %s, %s, s (goal: 5 or less)", f.name, how), took.Seconds())
	return c, nil
}

// idleMemory returns the resident memory of a server after an idle pause.
func idleMemory(ctx context.Context, c *child) (int64, error) {
	select {
	case <-time.After(idleWait):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return residentAnonymous(c.pid())
}

// pages measures the time of the first page of queues, one in the middle and the last.
func (s *suite) pages(ctx context.Context, c *child, f manyForm) error {
	for _, skip := range []int{0, f.queues / 2, f.queues - pageSize} {
		var took []float64
		for range pageRepeats {
			began := time.Now()
			if err := c.page(ctx, skip); err != nil {
				return err
			}
			took = append(took, float64(time.Since(began).Microseconds())/1000)
		}
		slices.Sort(took)
		s.Log("%s: page of %d queues at %d: median %.2f ms, slowest %.2f ms", f.name, pageSize, skip, took[len(took)/2], took[len(took)-1])
		for _, v := range took {
			s.report.add(brokerSide, fmt.Sprintf("page of %d queues at %d of %s, ms (goal: 50 or less)", pageSize, skip, f.name), v)
		}
	}
	return nil
}

// page requests one page of queues over HTTP.
func (c *child) page(ctx context.Context, skip int) error {
	cs, err := client.ParseConnectionString(c.target.ConnectionString)
	if err != nil {
		return err
	}
	url := fmt.Sprintf("http://%s:%d/$Resources/queues", cs.Host, cs.Port)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s?api-version=2021-05&$skip=%d&$top=%d", url, skip, pageSize), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", cs.Token(url, time.Now()))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || len(body) < pageSize*100) {
		err = fmt.Errorf("bench: %s answered with status %d and %d bytes", filepath.Base(url), res.StatusCode, len(body))
	}
	return err
}
