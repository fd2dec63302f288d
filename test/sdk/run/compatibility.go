package main

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// headings are the groups as people call them.
var headings = map[string]string{
	"send": "Sending", "receive": "Receiving", "locks": "Locks", "settle": "Settlement", "dead-letter": "Dead-letter queues", "expiry": "Expiry",
	"schedule": "Scheduling", "defer": "Deferral", "peek": "Peek", "batch-delete": "Batch delete", "sessions": "Sessions",
	"duplicates": "Duplicate detection", "status-quota": "Status, quotas and limits", "credit": "Credit, drain and prefetch",
	"connection": "Connections", "topics": "Topics and subscriptions", "rules": "Rules: filters and actions", "forwarding": "Forwarding",
	"transactions": "Transactions", "jms": "JMS: transacted sessions", "proton": "Qpid Proton: transactions", "admin": "Administration clients",
}

// introductions stand below the heading of a group.
var introductions = map[string]string{
	"connection": "TLS and WebSocket were tried with messaging clients of all four SDKs, on the port that speaks plain AMQP too, with the certificate of the\n" +
		"development authority. Whom it trusts is said by `TLSConfig` (go), `NODE_EXTRA_CA_CERTS` (js), `connection_verify` (python) and the process's default\n" +
		"`SSLContext` (java). Python and Java drop the port of a connection string: `custom_endpoint_address` and `customEndpointAddress` put it back. The WebSocket\n" +
		"libraries are `github.com/coder/websocket` (go, whose caller dials), `ws` (js), `websocket-client` (python) and the SDK's own (java).\n\n" +
		"A message over the size limit does not end its link: [why](decisions/0005-an-oversized-message-does-not-end-its-link.md).",
	"transactions": "Of the four SDKs only Java's has transactions; those of Go, JavaScript and Python have no call for them.",
	"jms": "Qpid JMS speaks plain AMQP; its addresses are the names of entities, its user name and password the name and the key of an authorization rule.\n" +
		"The listener is the `DefaultMessageListenerContainer` of `spring-jms`, with `sessionTransacted` and nothing else set.",
	"proton": "Qpid Proton for Python speaks plain AMQP, with the name and the key of an authorization rule as user name and password. The scenarios do what its\n" +
		"examples `tx_send.py` and `tx_recv.py` do.",
	"admin": "The administration client of each SDK has the connection string that its messaging client has, and speaks HTTPS to that port with the certificate\n" +
		"of the development authority. Whom it trusts is said by a transport (go), `NODE_EXTRA_CA_CERTS` (js), `connection_verify` (python) and a trust store\n" +
		"(java). Java's drops the port of a connection string: a pipeline policy puts it back, where a broker that listens on 443 needs none.",
}

// outside are the results of suites that run elsewhere, as they stand on the page.
//
//go:embed outside.txt
var outside string

// column is a client of the compatibility page, with what every round of it came to.
type column struct {
	SDK, Package, Version string
	Rounds                []Report
	Partitioned           []Report // of the rounds on partitioned entities
}

// mark is the worst of all rounds on plain entities.
func (c column) mark(s lab.Scenario) string { return c.worst(s, c.Rounds) }

// both is the mark of plain entities, followed by that of partitioned ones if the client runs on
// those.
func (c column) both(s lab.Scenario) string {
	plain := c.mark(s)
	if !slices.Contains(lab.SDKs, c.SDK) || plain == cannot {
		return plain
	}
	if other := c.worst(s, c.Partitioned); other == cannot {
		return plain + " " + other
	} else {
		return plain + other
	}
}

// worst is the worst mark of some rounds.
func (c column) worst(s lab.Scenario, rounds []Report) string {
	worst := unknown
	if s.Not[c.SDK] != "" {
		worst = cannot // the list says so, whoever ran
	}
	if len(rounds) > 0 && s.Why(c.SDK, rounds[0].Partitioned) != "" {
		worst = cannot
	}
	for _, r := range rounds {
		if v := r.Verdict(s); v.Mark != unknown && worst != failed {
			worst = v.Mark
		}
	}
	return worst
}

// writeCompatibility writes docs/compatibility.md: one row a behaviour, with what shows it. longest
// is that of all rounds of all suites, 0 if there was none. some are statements to be listed at the
// end.
func writeCompatibility(w io.Writer, list lab.List, columns []column, longest time.Duration, some []statement) error {
	p := &page{}
	p.head(list, columns)
	p.time(columns, longest)
	p.contents(list, columns)
	group := ""
	for _, s := range list.Scenarios {
		if s.Group != group {
			group = s.Group
			p.heading(group, of(columns, list, group))
		}
		p.row(s, of(columns, list, group))
	}
	p.statements(some)
	p.printf("%s\n", outside)
	for i, note := range p.notes {
		p.printf("[^%d]: %s.\n", i+1, note)
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// of are the columns of a group.
func of(columns []column, list lab.List, group string) (some []column) {
	for _, c := range columns {
		if slices.Contains(list.Of(group), c.SDK) {
			some = append(some, c)
		}
	}
	return some
}

// page is the page while it is written.
type page struct {
	text  strings.Builder
	notes []string
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.text, format, args...) }

func (p *page) head(list lab.List, columns []column) {
	p.printf("# What the Service Bus SDKs do with Ledgerbus\n\n")
	p.printf("Generated by `make sdk`, which runs every suite against the broker; do not edit. A line is one behaviour, shown by the scenario of that name in\n")
	p.printf("[test/sdk/scenarios.json](../test/sdk/scenarios.json), where its steps stand. The SDKs come unmodified from their registries. The third column\n")
	p.printf("names the statements of the specification that are shown: S of the collection, SM of the semantics, WP of the wire protocol, MA of the management API.\n\n")
	p.printf("`%s` shown, `%s` failed, `%s` not run, `%s` the client's public API cannot express it. Of the two marks of an SDK the first is of plain queues and topics, the second of\n", shown, failed, unknown, cannot)
	p.printf("a run in which every one is [partitioned](guide/partitioned.md): messages without a key then have one for each scenario, since scenarios look at the order.\n")
	p.printf("Those of the administration clients say themselves what they make.\n\n")
	p.printf("| client | package | version | entities | %s | %s | %s | n/a |\n| --- | --- | --- | --- | ---: | ---: | ---: | ---: |\n", shown, failed, unknown)
	for _, c := range columns {
		p.total(list, c, plainEntities, c.Rounds)
		if slices.Contains(lab.SDKs, c.SDK) {
			p.total(list, c, partitionedEntities, c.Partitioned)
		}
	}
}

// total is how many scenarios of a client came to each mark.
func (p *page) total(list lab.List, c column, entities string, rounds []Report) {
	n := map[string]int{}
	for _, s := range list.For(c.SDK).Scenarios {
		n[c.worst(s, rounds)]++
	}
	p.printf("| %s | %s | %s | %s | %d | %d | %d | %d |\n", c.SDK, c.Package, c.Version, entities, n[shown], n[failed], n[unknown], n[cannot])
}

// time is how long all of it took, and may take.
func (p *page) time(columns []column, longest time.Duration) {
	if longest == 0 {
		return
	}
	of := "one round"
	if n := len(columns[0].Rounds); n > 1 { // all have as many
		of = fmt.Sprintf("the longest of %d rounds", n)
	}
	seconds := int(longest.Round(time.Second).Seconds())
	p.printf("\nThe suites, one after another, took %d min %d s (%s); a round of more than %.0f min fails.\n", seconds/60, seconds%60, of, budgetOfBoth.Minutes())
}

// contents are the groups with what each SDK shows of them.
func (p *page) contents(list lab.List, columns []column) {
	p.printf("\n| part | scenarios |")
	for _, c := range columns {
		p.printf(" %s %s |", c.SDK, shown)
	}
	p.printf("\n| --- | ---: |%s\n", strings.Repeat(" ---: |", len(columns)))
	for _, group := range lab.Groups {
		total, n := 0, make([]int, len(columns))
		for _, s := range list.Scenarios {
			if s.Group != group {
				continue
			}
			total++
			for i, c := range columns {
				if c.mark(s) == shown {
					n[i]++
				}
			}
		}
		if total == 0 {
			continue
		}
		p.printf("| [%s](#%s) | %d |", headings[group], anchor(headings[group]), total)
		for i, c := range columns {
			if slices.Contains(list.Of(group), c.SDK) {
				p.printf(" %d |", n[i])
			} else {
				p.printf(" |")
			}
		}
		p.printf("\n")
	}
}

// anchor is what a heading is linked by.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func (p *page) heading(group string, columns []column) {
	p.printf("\n## %s\n\n", headings[group])
	if text := introductions[group]; text != "" {
		p.printf("%s\n\n", text)
	}
	p.printf("| behaviour | scenario | shows |")
	for _, c := range columns {
		p.printf(" %s |", c.SDK)
	}
	p.printf("\n| --- | --- | --- |%s\n", strings.Repeat(" :---: |", len(columns)))
}

func (p *page) row(s lab.Scenario, columns []column) {
	title := strings.ReplaceAll(s.Title, "|", `\|`)
	if s.Partitioned != "" {
		title += p.footnote("On partitioned entities: " + s.Partitioned)
	}
	p.printf("| %s | %s | %s |", title, s.ID, strings.Join(s.Refs, " "))
	for _, c := range columns {
		mark := c.both(s)
		switch {
		case mark == cannot:
			mark += p.footnote(s.Not[c.SDK])
		case strings.HasSuffix(mark, cannot):
			mark += p.footnote(s.NotPartitioned[c.SDK])
		case s.Note[c.SDK] != "":
			mark += p.footnote(s.Note[c.SDK])
		}
		p.printf(" %s |", mark)
	}
	p.printf("\n")
}

// footnote refers to a note; equal ones stand once.
func (p *page) footnote(note string) string {
	i := slices.Index(p.notes, note)
	if i < 0 {
		i = len(p.notes)
		p.notes = append(p.notes, note)
	}
	return fmt.Sprintf("[^%d]", i+1)
}
