package bench

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

const (
	publishTopic       = "bench-topic"
	publishFilters     = 100
	publishMatching    = 10
	fewCorrelations    = 100
	manyCorrelations   = 100_000
	rulesOfOne         = 1000 // of one subscription
	correlationMatched = 10   // different customers among the messages
)

// filteredTopic returns a topic with subscriptions with different SQL filters, ten of which match
// each message of orders.
func filteredTopic() topicEntry {
	var subs []subscriptionEntry
	for i := range publishFilters {
		text := fmt.Sprintf("region = 'r%d' AND weight > %d", i/publishMatching, i%publishMatching)
		subs = append(subs, subscriptionEntry{fmt.Sprintf("sub-%02d", i), []ruleEntry{sqlRule(text)}})
	}
	return largeTopic(publishTopic, subs...)
}

// orders returns the application properties of messages for filteredTopic.
func orders() (all []map[string]any) {
	for i := range publishFilters / publishMatching {
		all = append(all, map[string]any{"region": fmt.Sprint("r", i), "weight": int64(20 + i), "tenant": "t-17", "urgent": i%2 == 0})
	}
	return all
}

// correlatedTopic returns a topic with n correlation filters for one value each.
func correlatedTopic(name string, n int) topicEntry {
	var subs []subscriptionEntry
	for i := range n {
		if i%rulesOfOne == 0 {
			subs = append(subs, subscriptionEntry{Name: fmt.Sprintf("sub-%03d", i/rulesOfOne)})
		}
		s := &subs[len(subs)-1]
		s.Rules = append(s.Rules, correlationRule(i, "customer", fmt.Sprint("c-", i)))
	}
	return largeTopic(name, subs...)
}

// customers returns the application properties of messages for correlatedTopic: one filter matches
// each.
func customers() (all []map[string]any) {
	for i := range correlationMatched {
		all = append(all, map[string]any{"customer": fmt.Sprint("c-", i*fewCorrelations/correlationMatched), "tenant": "t-17"})
	}
	return all
}

// publish measures publishing to a topic with SQL filters, compared with sending the same
// messages to a queue. There are no receivers. Every round has a new broker.
func (s *suite) publish(ctx context.Context) error {
	file := &entityFile{Queues: []entityEntry{largeQueue()}, Topics: []topicEntry{filteredTopic()}}
	text := fmt.Sprintf("publish to %d SQL filters, %d of them matching", publishFilters, publishMatching)
	both := comparison{
		ways:       [2]way{{"send to a queue, the same messages", brokerQueue}, {text, publishTopic}},
		properties: orders(), rate: "rate of publish/send (goal: a third or more)", cost: "server CPU of publish/send",
	}
	for round := range s.Rounds {
		b, err := newBroker(s.Program, s.Dir, file)
		if err != nil {
			return err
		}
		err = s.compare(ctx, b, round, &both)
		if err := b.remove(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// correlate measures publishing to a topic with many correlation filters, compared with a topic
// with few.
func (s *suite) correlate(ctx context.Context) error {
	file := &entityFile{Queues: []entityEntry{largeQueue()}, Topics: []topicEntry{
		correlatedTopic("few", fewCorrelations), correlatedTopic("many", manyCorrelations)}}
	both := comparison{
		ways: [2]way{{fmt.Sprintf("publish to %d correlation filters", fewCorrelations), "few"},
			{fmt.Sprintf("publish to %d correlation filters", manyCorrelations), "many"}},
		properties: customers(), rate: "rate of many/few", cost: "server CPU of many/few (goal: 2 or less)",
	}
	b, err := newBroker(s.Program, s.Dir, file)
	if err != nil {
		return err
	}
	defer b.remove()
	for round := range s.Rounds {
		if err := s.compare(ctx, b, round, &both); err != nil {
			return err
		}
	}
	return nil
}

// A way is one of two compared ways to send.
type way struct{ name, entity string }

// A comparison is two ways to send the same messages.
type comparison struct {
	ways       [2]way
	properties []map[string]any
	rate, cost string // names of the rows for the ratio of the second way to the first
}

// compare starts a broker and measures two ways in turn, and alternates their order.
func (s *suite) compare(ctx context.Context, b *broker, round int, both *comparison) error {
	c, err := b.startReady(ctx)
	if err != nil {
		return err
	}
	defer c.kill()
	if round == 0 {
		s.Log("%s: the broker was ready after %v", both.ways[1].name, short(time.Since(c.began)))
	}
	for _, n := range s.InFlight {
		var results [2]Result
		var stored [2]float64
		for i := range both.ways {
			at := (i + round) % 2
			w := both.ways[at]
			if results[at], stored[at], err = s.way(ctx, b, c, w, n, both.properties); err != nil {
				return err
			}
			s.Log("round %d: %s, %d in flight: %.0f/s, %.0f bytes of log each", round+1, w.name, n, results[at].PerSecond, stored[at])
		}
		s.add(both, n, results, stored)
	}
	return nil
}

// add adds the figures of two ways to the report.
func (s *suite) add(both *comparison, inFlight int, results [2]Result, stored [2]float64) {
	add := func(row string, v float64) {
		s.report.add(brokerSide, fmt.Sprintf("%s, %d in flight", row, inFlight), v)
	}
	for i, w := range both.ways {
		add("messages/s, "+w.name, results[i].PerSecond)
	}
	add(both.rate, results[1].PerSecond/results[0].PerSecond)
	if results[0].ServerCPU != nil && results[1].ServerCPU != nil {
		for i, w := range both.ways {
			add(cpuOf(w.name), *results[i].ServerCPU)
		}
		add(both.cost, *results[1].ServerCPU / *results[0].ServerCPU)
	}
	for i, w := range both.ways {
		add("bytes of log per message, "+w.name, stored[i])
	}
}

// way sends in one way, and returns the number of log bytes per message.
func (s *suite) way(ctx context.Context, b *broker, c *child, w way, inFlight int, properties []map[string]any) (Result, float64, error) {
	before, err := b.logBytes()
	if err != nil {
		return Result{}, 0, err
	}
	to := c.target
	to.Queue, to.Plain = w.entity, s.Plain
	r, err := Send(ctx, to, Load{Size: s.Size, InFlight: inFlight, Duration: s.Duration, ServerPID: c.pid(), Properties: properties})
	if err != nil {
		return r, 0, fmt.Errorf("%s: %w", w.name, err)
	}
	after, err := b.logBytes()
	return r, float64(after-before) / float64(r.Accepted), err
}

// logBytes returns the size of all log files.
func (b *broker) logBytes() (sum int64, err error) {
	err = filepath.WalkDir(filepath.Join(b.dir, "data", "partitions"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(filepath.ToSlash(path), "/wal/") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
